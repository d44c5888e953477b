//! Rows of words as aligned columns.

/// Rows below a heading, each column as wide as its widest cell; `right` says which columns hold
/// numbers. Ends with a line break.
pub(super) fn columns<const N: usize>(
    heading: [&str; N],
    rows: &[[String; N]],
    right: [bool; N],
) -> String {
    let heading = heading.map(str::to_owned);
    let mut out = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let cells = std::iter::once(&heading).chain(rows);
            let width = cells.map(|row| row[index].chars().count()).max();
            let width = width.unwrap_or(0);
            let cell = match right[index] {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
            line.push_str(&cell);
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn numbers_stand_right_and_nothing_trails() {
        let rows = [
            ["a".to_owned(), "1,000".to_owned(), String::new()],
            ["long".to_owned(), "7".to_owned(), "x".to_owned()],
        ];
        assert_eq!(
            columns(["what", "n", "note"], &rows, [false, true, false]),
            "what      n  note\na     1,000\nlong      7  x\n"
        );
    }
}
