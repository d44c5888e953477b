//! Whether a document fits a JSON schema, for the keywords that the status schema uses.
//!
//! Invariant: a keyword that it does not know fails the test; nothing is passed over.

use serde_json::Value;

/// Words about a schema, not about documents.
const ABOUT: [&str; 5] = ["$schema", "title", "description", "$defs", "format"];

/// What does not fit, a line each.
pub(crate) fn misfits(schema: &Value, document: &Value) -> Vec<String> {
    let mut misfits = Vec::new();
    look(schema, schema, document, "", &mut misfits);
    misfits
}

fn look(root: &Value, schema: &Value, found: &Value, at: &str, misfits: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        assert_eq!(schema, true, "a schema that is neither an object nor true");
        return;
    };
    let mut inner: Vec<(&Value, &Value, String)> = Vec::new();
    for (keyword, value) in keywords {
        match keyword.as_str() {
            "$ref" => {
                let path = value.as_str().expect("a reference").trim_start_matches('#');
                let target = root.pointer(path).expect("it is in the schema");
                inner.push((target, found, at.to_owned()));
            }
            "properties" => {
                for (name, schema) in value.as_object().expect("members") {
                    if let Some(member) = found.get(name) {
                        inner.push((schema, member, format!("{at}/{name}")));
                    }
                }
            }
            "additionalProperties" => {
                let known = keywords.get("properties");
                let members = found.as_object().into_iter().flatten();
                for (name, member) in members {
                    if known.is_none_or(|known| known.get(name).is_none()) {
                        inner.push((value, member, format!("{at}/{name}")));
                    }
                }
            }
            "items" => {
                for (index, item) in found.as_array().into_iter().flatten().enumerate() {
                    inner.push((value, item, format!("{at}/{index}")));
                }
            }
            "anyOf" | "oneOf" => {
                let fits = |schema: &&Value| {
                    let mut none = Vec::new();
                    look(root, schema, found, at, &mut none);
                    none.is_empty()
                };
                let fitting = value.as_array().expect("schemas").iter().filter(fits);
                let fitting = fitting.count();
                if fitting == 0 || (keyword == "oneOf" && fitting > 1) {
                    misfits.push(format!("{at}: fits {fitting} of {keyword}, found {found}"));
                }
            }
            about if ABOUT.contains(&about) => {}
            plain => {
                let wrong = misfit(plain, value, found).into_iter();
                misfits.extend(wrong.map(|what| format!("{at}: {what}, found {found}")));
            }
        }
    }
    for (schema, found, at) in inner {
        look(root, schema, found, &at, misfits);
    }
}

/// What does not fit a keyword about the value itself.
fn misfit(keyword: &str, value: &Value, found: &Value) -> Vec<String> {
    let not = |fits: bool| {
        (!fits)
            .then(|| format!("not {value}"))
            .into_iter()
            .collect()
    };
    match keyword {
        "type" => {
            let one = std::slice::from_ref(value);
            let types = value.as_array().map_or(one, Vec::as_slice);
            not(types.iter().any(|kind| is(kind, found)))
        }
        "const" => not(value == found),
        "enum" => not(value.as_array().expect("a list").contains(found)),
        "minimum" | "maximum" => {
            let (limit, found) = (value.as_f64().expect("a number"), found.as_f64());
            let low = keyword == "minimum";
            not(found.is_none_or(|found| if low { found >= limit } else { found <= limit }))
        }
        "required" => {
            let names = value.as_array().into_iter().flatten();
            let lost = names.filter_map(Value::as_str);
            let lost = lost.filter(|name| found.is_object() && found.get(name).is_none());
            lost.map(|name| format!("lacks `{name}`")).collect()
        }
        unknown => panic!("keyword `{unknown}` of the schema is not known here"),
    }
}

fn is(kind: &Value, found: &Value) -> bool {
    match kind.as_str().expect("a type") {
        "null" => found.is_null(),
        "boolean" => found.is_boolean(),
        "string" => found.is_string(),
        "array" => found.is_array(),
        "object" => found.is_object(),
        "number" => found.is_number(),
        "integer" => found.is_u64() || found.is_i64(),
        other => panic!("type `{other}` is not known here"),
    }
}

#[test]
fn misfits_are_seen() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"], "additionalProperties": {"type": "integer"},
        "properties": {
            "a": {"$ref": "#/$defs/word"},
            "b": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}},
            "c": {"anyOf": [{"$ref": "#/$defs/word"}, {"type": "null"}]}
        },
        "$defs": {"word": {"oneOf": [{"type": "string", "const": "x"}, {"enum": ["y"]}]}}
    });
    for good in [
        r#"{"a": "x"}"#,
        r#"{"a": "y", "b": [1], "c": null, "d": 2}"#,
    ] {
        let found = misfits(&schema, &serde_json::from_str(good).expect("JSON"));
        assert!(found.is_empty(), "{good}: {found:?}");
    }
    for bad in [
        "{}",
        "3",
        r#"{"a": "z"}"#,
        r#"{"a": "x", "b": 1}"#,
        r#"{"a": "x", "b": [-1]}"#,
        r#"{"a": "x", "c": "z"}"#,
        r#"{"a": "x", "d": "text"}"#,
    ] {
        let found = misfits(&schema, &serde_json::from_str(bad).expect("JSON"));
        assert!(!found.is_empty(), "{bad}");
    }
}
