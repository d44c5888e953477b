//! Finds `.rs` files that no crate declares, and those that are declared for tests alone.
//!
//! Invariant: a file is alive when a crate root reaches it by `mod` declarations. It is product
//! when a root reaches it by declarations of which none is under `#[cfg(test)]`.
//!
//! It cannot see a `mod` inside an inline module, nor one that a macro makes.

use std::collections::{BTreeMap, BTreeSet};

use crate::scan::{File, words};

/// Paths of the Rust files that no crate root reaches.
pub(crate) fn undeclared(files: &[File]) -> Vec<String> {
    let rust: BTreeMap<&str, &File> = files
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (&*file.path, file))
        .collect();
    let mut open: Vec<String> = rust
        .keys()
        .filter(|path| is_root(path))
        .map(|&path| path.to_owned())
        .collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = open.pop() {
        if let Some(file) = rust.get(&*path)
            && reached.insert(path)
        {
            open.extend(declared(file));
        }
    }
    rust.keys()
        .filter(|&&path| !reached.contains(path))
        .map(|&path| path.to_owned())
        .collect()
}

/// Takes the product out of files that only a `#[cfg(test)] mod x;` leads to: they are test code.
/// A file that a declaration of the product reaches as well stays product.
pub(crate) fn spare_test_modules(files: &mut [File]) {
    let mut for_tests = Vec::new();
    let mut product: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        if is_root(&file.path) {
            open.push(file.path.clone());
        }
        let in_product = declared_in(file, &file.product);
        for_tests.extend(
            declared(file)
                .into_iter()
                .filter(|p| !in_product.contains(p)),
        );
    }
    while let Some(path) = open.pop() {
        if product.insert(path.clone())
            && let Some(file) = files.iter().find(|file| file.path == path)
        {
            open.extend(declared_in(file, &file.product));
        }
    }
    // What a test module declares is test code too.
    let mut tests = BTreeSet::new();
    while let Some(path) = for_tests.pop() {
        if product.contains(&path) || !tests.insert(path.clone()) {
            continue;
        }
        if let Some(file) = files.iter_mut().find(|file| file.path == path) {
            file.product.clear();
            for_tests.extend(declared(file));
        }
    }
}

fn is_root(path: &str) -> bool {
    let inside = path.strip_prefix("operators/").unwrap_or(path);
    if ["src/lib.rs", "src/main.rs", "build.rs"].contains(&inside) {
        return true;
    }
    ["tests/", "examples/", "benches/", "src/bin/"]
        .iter()
        .any(|folder| {
            inside.strip_prefix(folder).is_some_and(|rest| {
                !rest.contains('/')
                    || (rest.matches('/').count() == 1 && rest.ends_with("/main.rs"))
            })
        })
}

fn declared(file: &File) -> Vec<String> {
    declared_in(file, &file.code)
}

/// What `code`, all of the file's code or its product, declares.
fn declared_in(file: &File, code: &str) -> Vec<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let own = if is_root(&file.path) || name == "mod.rs" {
        folder.to_owned()
    } else {
        file.path.trim_end_matches(".rs").to_owned()
    };
    let mut paths = Vec::new();
    for at in words(code, "mod") {
        let rest = code[at + 3..].trim_start();
        let Some((name, _)) = rest.split_once(';') else {
            continue;
        };
        if name.is_empty() || !name.bytes().all(crate::scan::is_identifier) {
            continue;
        }
        match path_attribute(&file.text[..at]) {
            Some(path) => paths.push(normal(&format!("{folder}/{path}"))),
            None => {
                paths.push(format!("{own}/{name}.rs"));
                paths.push(format!("{own}/{name}/mod.rs"));
            }
        }
    }
    paths
}

/// The path in `#[path = "…"]` among the attributes right before a declaration.
fn path_attribute(before: &str) -> Option<&str> {
    let start = before.rfind([';', '}']).map_or(0, |at| at + 1);
    let (_, rest) = before[start..].rsplit_once("#[path = \"")?;
    rest.split_once('"').map(|(path, _)| path)
}

fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}
