//! The source database, against what the job and the live connector need of it. `look` asks, the
//! rest is pure.

use super::finding::Finding;
use crate::config::Config;
use crate::config::choices::Unavailable;
use crate::connector::Connector;
use crate::error::Error;
use crate::error::ErrorKind::{Failed, Refused};
use crate::source_database::{Server, Slot, SourceColumn, SourceDatabase, SourceTable};
use crate::table::Table;

/// A slot that holds back more is told, bytes.
const BEHIND_BYTES: i64 = 1 << 30;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The server.
    pub server: Server,
    /// The tables of the job, in their order; nothing where there is none.
    pub tables: Vec<Option<SourceTable>>,
    /// The name of the live connector's slot, and the slot.
    pub slot: Option<(String, Option<Slot>)>,
    /// The live connector's publication.
    pub publication: Option<String>,
}

impl Database {
    /// Columns of a kind, `table.column`.
    pub fn columns(&self, tables: &[Table], of: fn(&SourceColumn) -> bool) -> Vec<String> {
        let mut names = Vec::new();
        for (table, found) in tables.iter().zip(&self.tables) {
            let columns = found.iter().flat_map(|found| &found.columns);
            let wanted = columns.filter(|column| of(column));
            names.extend(wanted.map(|column| format!("{}.{}", table.name, column.name)));
        }
        names
    }
}

/// Asks `source.database`; nothing when it is not set or is no PostgreSQL.
pub(super) fn look(
    config: &Config,
    tables: &[Table],
    live: Option<&Connector>,
) -> Option<Result<Database, Error>> {
    let plain = match config.source.database.as_ref()?.resolve() {
        Ok(plain) => plain,
        Err(error) => return Some(Err(error)),
    };
    let url = plain.expose();
    let is_postgres = url.starts_with("postgres://") || url.starts_with("postgresql://");
    is_postgres.then(|| ask(url, tables, live.filter(|live| live.is_postgres())))
}

fn ask(url: &str, tables: &[Table], live: Option<&Connector>) -> Result<Database, Error> {
    let database = SourceDatabase::open("source.database", url)?;
    let slot = live.map(|live| live.or("slot.name", "debezium").to_owned());
    Ok(Database {
        server: database.server()?,
        tables: tables
            .iter()
            .map(|table| database.table(&table.name))
            .collect::<Result<_, _>>()?,
        slot: match slot {
            Some(name) => {
                let slot = database.slot(&name)?;
                Some((name, slot))
            }
            None => None,
        },
        publication: live.map(|live| live.or("publication.name", "dbz_publication").to_owned()),
    })
}

/// What follows.
pub(super) fn judge(
    database: &Database,
    tables: &[Table],
    unavailable: Unavailable,
    findings: &mut Vec<Finding>,
) {
    let server = &database.server;
    let thing = format!("source {}", server.name);
    let before = findings.len();
    if server.wal_level != "logical" {
        findings.push(
            Finding::bad(Failed, &thing, format!("wal_level={}", server.wal_level))
                .expected("wal_level=logical")
                .to_do("Without it no connector can stream changes."),
        );
    }
    if server.standby {
        findings.push(Finding::warning(
            &thing,
            "it is a standby",
            &[
                "A snapshot that is read from it is as old as its lag, which must be within",
                "retention.start_margin.",
            ],
        ));
    }
    slot(database, &thing, findings);
    if findings.len() == before {
        findings.push(Finding::ok(
            &thing,
            "logical, and its slot streams or is not known",
        ));
    }
    for (table, found) in tables.iter().zip(&database.tables) {
        let thing = format!("source {}", table.name);
        match found {
            None => findings.push(
                Finding::bad(Failed, thing, format!("{} has no such table", server.name))
                    .expected("a table that the user of source.database sees"),
            ),
            Some(found) => {
                let publication = database.publication.as_deref();
                judge_table(table, found, (publication, unavailable), &thing, findings);
            }
        }
    }
}

fn slot(database: &Database, thing: &str, findings: &mut Vec<Finding>) {
    let Some((name, slot)) = &database.slot else {
        return;
    };
    let Some(slot) = slot else {
        findings.push(
            Finding::bad(Failed, thing, format!("there is no slot `{name}`"))
                .expected("the live connector's slot")
                .to_do(
                    "Until it is there no change is recorded. Start the live connector, then the",
                )
                .to_do("snapshot."),
        );
        return;
    };
    if slot.wal_status == "lost" {
        findings.push(
            Finding::bad(Refused, thing, format!("slot `{name}` has lost its place"))
                .expected("wal_status reserved or extended")
                .to_do(
                    "Changes are missing from the mutation topic. Make the slot anew, then take a",
                )
                .to_do("new snapshot; raise max_slot_wal_keep_size."),
        );
    } else if !slot.active {
        findings.push(
            Finding::warning(
                thing,
                format!("nobody streams from slot `{name}`"),
                &["RUNNING in Connect does not mean that it streams. Look at its task."],
            )
            .expected("an active slot"),
        );
    } else if slot.behind_bytes > BEHIND_BYTES {
        findings.push(
            Finding::warning(
                thing,
                format!("slot `{name}` is {} MiB behind", slot.behind_bytes >> 20),
                &["`caught_up` waits for it. An idle table needs heartbeats to move it on."],
            )
            .expected("below 1024 MiB"),
        );
    }
}

fn judge_table(
    table: &Table,
    found: &SourceTable,
    (publication, unavailable): (Option<&str>, Unavailable),
    thing: &str,
    findings: &mut Vec<Finding>,
) {
    let before = findings.len();
    if found.key.is_empty() && table.key.is_none() {
        findings.push(
            Finding::bad(Refused, thing, "it has no primary key")
                .expected("a primary key, or `key` of the table set")
                .to_do("Without a key no marker can be matched with a READ."),
        );
    }
    if found.identity == 'n' {
        findings.push(
            Finding::bad(Refused, thing, "REPLICA IDENTITY NOTHING")
                .expected("DEFAULT with a primary key, or FULL")
                .to_do("Updates and deletes come without a key, or fail at the source."),
        );
    }
    let large = found
        .columns
        .iter()
        .filter(|column| column.large && !column.generated);
    let large: Vec<&str> = large.map(|column| column.name.as_str()).collect();
    if found.identity != 'f' && !large.is_empty() {
        let what = match unavailable {
            Unavailable::Refuse => "the job stops at one (sink.unavailable = \"refuse\").",
            Unavailable::Pass => "it is written as it came (sink.unavailable = \"pass\").",
        };
        let what = format!("An UPDATE that leaves it alone sends a placeholder for it: {what}");
        let sql = format!("ALTER TABLE {} REPLICA IDENTITY FULL;", table.name);
        findings.push(
            Finding::warning(
                thing,
                format!("values beyond 2 kB may not come: {}", large.join(", ")),
                &[&what, &sql],
            )
            .expected("REPLICA IDENTITY FULL"),
        );
    }
    generated(found, thing, findings);
    if let Some(publication) = publication
        && !found.publications.iter().any(|name| name == publication)
    {
        findings.push(
            Finding::bad(
                Refused,
                thing,
                format!("publication `{publication}` lacks it"),
            )
            .expected(format!(
                "ALTER PUBLICATION {publication} ADD TABLE {};",
                table.name
            ))
            .to_do("Its changes are not recorded, so every READ of it would pass."),
        );
    }
    if findings.len() == before {
        findings.push(Finding::ok(thing, format!("key {}", found.key.join(", "))));
    }
}

fn generated(found: &SourceTable, thing: &str, findings: &mut Vec<Finding>) {
    let generated = found.columns.iter().filter(|column| column.generated);
    let generated: Vec<&str> = generated.map(|column| column.name.as_str()).collect();
    if !generated.is_empty() {
        findings.push(
            Finding::warning(
                thing,
                format!("generated: {}", generated.join(", ")),
                &["The log does not carry it: it comes with READs alone and goes with a change."],
            )
            .expected("column.exclude.list in the snapshot connector, or computed by the target"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Database, judge};
    use crate::check::{Findings, Level};
    use crate::config::choices::Unavailable;
    use crate::source_database::{Server, Slot, SourceColumn, SourceTable};
    use crate::table::Table;

    fn good() -> Database {
        let column = |name: &str| SourceColumn {
            name: name.to_owned(),
            ..SourceColumn::default()
        };
        Database {
            server: Server {
                name: "db:5432/app".to_owned(),
                now_ms: 0,
                asked_ms: 0,
                standby: false,
                wal_level: "logical".to_owned(),
            },
            tables: vec![Some(SourceTable {
                identity: 'd',
                columns: vec![column("id"), column("greeting")],
                key: vec!["id".to_owned()],
                publications: vec!["app_pub".to_owned()],
            })],
            slot: Some((
                "app".to_owned(),
                Some(Slot {
                    active: true,
                    wal_status: "reserved".to_owned(),
                    behind_bytes: 0,
                }),
            )),
            publication: Some("app_pub".to_owned()),
        }
    }

    #[test]
    fn each_fact_is_judged() {
        use Level::{Error, Ok, Warning};
        type Change = fn(&mut Database);
        fn table(database: &mut Database) -> &mut SourceTable {
            database.tables[0].as_mut().expect("it is there")
        }
        fn slot(database: &mut Database) -> &mut Slot {
            let (_, slot) = database.slot.as_mut().expect("named");
            slot.as_mut().expect("it is there")
        }
        let cases: [(Change, Level, &str); 12] = [
            (|_| (), Ok, "key id"),
            (
                |d| d.server.wal_level = "replica".to_owned(),
                Error,
                "wal_level",
            ),
            (|d| d.server.standby = true, Warning, "standby"),
            (
                |d| d.slot = Some(("app".to_owned(), None)),
                Error,
                "no slot `app`",
            ),
            (
                |d| slot(d).wal_status = "lost".to_owned(),
                Error,
                "lost its place",
            ),
            (|d| slot(d).active = false, Warning, "nobody streams"),
            (|d| slot(d).behind_bytes = 2 << 30, Warning, "2048 MiB"),
            (|d| d.tables = vec![None], Error, "no such table"),
            (|d| table(d).key.clear(), Error, "no primary key"),
            (|d| table(d).identity = 'n', Error, "NOTHING"),
            (
                |d| table(d).columns[1].large = true,
                Warning,
                "not come: greeting",
            ),
            (
                |d| table(d).publications.clear(),
                Error,
                "`app_pub` lacks it",
            ),
        ];
        for (change, level, part) in cases {
            let mut database = good();
            change(&mut database);
            let tables = [Table {
                name: "public.hello".to_owned(),
                mutations: "m".to_owned(),
                snapshot: "s".to_owned(),
                key: None,
            }];
            let mut findings = Vec::new();
            judge(&database, &tables, Unavailable::Refuse, &mut findings);
            let of = |one: &crate::check::Finding| one.level == level && one.found.contains(part);
            assert!(
                findings.iter().any(of),
                "{part}: {}",
                Findings(findings.clone()).table()
            );
            let others = findings.iter().filter(|one| !of(one));
            assert!(others.clone().all(|one| one.level == Ok), "{findings:#?}");
        }
    }
}
