//! Where the tables of [`crate::sink::ledger`] are in a database: in one schema, so that all jobs
//! on it find each other.
//!
//! Invariant: tables that are there are used wherever they are; new ones are made only when there
//! are none in the whole database, but for one that an older version did not have: it is made
//! beside the others.
//!
//! It cannot choose when a schema was copied within a database, unless one of the two is on the
//! search path.

use super::Target;
use super::tenure::Halt;
use crate::error::Error;
use crate::sink::ledger::{APPLIED, CHECKPOINT, GENERATION, TARGET};
use crate::sink::target::quoted;
use tokio_postgres::GenericClient;

const FIND: &str = "
    SELECT n.nspname, c.oid = to_regclass('headwater_target')
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relname = 'headwater_target' AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
     ORDER BY 2 DESC NULLS LAST, 1";

/// Schemas where they could be: the one of the search path, then those of the target tables.
const SCHEMAS: &str = "
    SELECT s, has_schema_privilege(s, 'CREATE')
      FROM (SELECT current_schema()::text AS s, 0 AS place
             UNION ALL
            SELECT n.nspname::text, u.place
              FROM unnest($1::text[]) WITH ORDINALITY AS u(name, place)
              JOIN pg_class c ON c.oid = to_regclass(u.name)
              JOIN pg_namespace n ON n.oid = c.relnamespace) AS t
     WHERE s IS NOT NULL ORDER BY place";

const RIGHTS: &str = "
    SELECT DISTINCT r FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r,
                           unnest($1::text[]) AS t
     WHERE to_regclass(t) IS NOT NULL AND has_table_privilege(to_regclass(t), r) IS NOT TRUE
     ORDER BY r";

/// The schema of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    /// Quoted.
    schema: String,
}

impl Home {
    fn of(schema: &str) -> Home {
        Home {
            schema: quoted(schema),
        }
    }

    /// A table of it as it stands in SQL.
    pub(super) fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.schema)
    }

    fn names(&self) -> [String; 4] {
        [TARGET, APPLIED, CHECKPOINT, GENERATION].map(|name| self.table(name))
    }

    /// The statements that make the tables, in the order of [`Home::names`].
    fn statements(&self) -> [String; 4] {
        let [target, applied, checkpoint, generation] = self.names();
        [
            format!(
                "CREATE TABLE IF NOT EXISTS {target} (relation regclass PRIMARY KEY, job text NOT \
                 NULL, identity text NOT NULL, incarnation bigint NOT NULL, claimant text \
                 NOT NULL);"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {applied} (identity text, role text, topic text, \
                 partition bigint, shard bigint, next_offset bigint NOT NULL, PRIMARY KEY \
                 (identity, role, topic, partition, shard));"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {checkpoint} (identity text PRIMARY KEY, number bigint \
                 NOT NULL);"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {generation} (identity text, number bigint, id text \
                 NOT NULL, stage text NOT NULL, since_ms bigint, PRIMARY KEY (identity, number));"
            ),
        ]
    }

    fn grant(&self, user: &str) -> String {
        let tables = self.names().join(", ");
        format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {};",
            quoted(user)
        )
    }
}

/// The tables of the database, if there are any.
pub(super) async fn find(
    target: &Target,
    client: &impl GenericClient,
) -> Result<Option<Home>, Halt> {
    let found = client.query(FIND, &[]).await?;
    let schemas: Vec<&str> = found.iter().map(|row| row.get(0)).collect();
    let on_path = found
        .first()
        .is_some_and(|row| row.get::<_, Option<bool>>(1) == Some(true));
    match schemas.as_slice() {
        [] => Ok(None),
        [first, rest @ ..] if on_path || rest.is_empty() => Ok(Some(Home::of(first))),
        several => {
            let what = format!("{} has {TARGET} more than once", target.name);
            Err(Error::refused(what)
                .line(format!("schemas  {}", several.join(", ")))
                .line("Each would say for itself who owns a target. Drop the tables headwater_*")
                .line("of the schema that is a copy.")
                .into())
        }
    }
}

/// Whether the tables are there, or can be made, with all rights.
pub(super) async fn check(
    target: &Target,
    client: &impl GenericClient,
    names: &[String],
) -> Result<(), Halt> {
    let user = client.query_one("SELECT current_user::text", &[]).await?;
    let user: String = user.get(0);
    let Some(home) = find(target, client).await? else {
        return place(target, client, names, &user).await.map(|_| ());
    };
    let absent = absent(&home, client).await?;
    let allowed = "SELECT has_schema_privilege(to_regnamespace($1)::oid, 'CREATE')";
    if !absent.is_empty() {
        let row = client.query_one(allowed, &[&home.schema]).await?;
        if row.get::<_, Option<bool>>(0) != Some(true) {
            let what = format!("a table of an older version is missing in {}", target.name);
            let error = Error::usage(what)
                .line(format!(
                    "found     no right to create one in {}",
                    home.schema
                ))
                .line("Run once as the owner of the schema:");
            let lines = absent.into_iter().fold(error, Error::line);
            return Err(lines.line(home.grant(&user)).into());
        }
    }
    let names = home.names().to_vec();
    let missing = client.query(RIGHTS, &[&names]).await?;
    let missing: Vec<String> = missing.iter().map(|row| row.get(0)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the user of sink.url may not use {}",
        home.names().join(", ")
    );
    Err(Error::usage(what)
        .line(format!("missing  {}", missing.join(", ")))
        .line("They say which job and which run may write a target. Run as their owner:")
        .line(home.grant(&user))
        .into())
}

/// The statements of tables that are not there.
async fn absent(home: &Home, client: &impl GenericClient) -> Result<Vec<String>, Halt> {
    let names = home.names().to_vec();
    let there =
        "SELECT to_regclass(t) IS NOT NULL FROM unnest($1::text[]) WITH ORDINALITY AS u(t, o)
                  ORDER BY o";
    let rows = client.query(there, &[&names]).await?;
    let statements = home.statements().into_iter().zip(rows);
    let absent = statements.filter(|(_, row)| !row.get::<_, bool>(0));
    Ok(absent.map(|(statement, _)| statement).collect())
}

/// The schema where the tables are to be made.
async fn place(
    target: &Target,
    client: &impl GenericClient,
    names: &[String],
    user: &str,
) -> Result<Home, Halt> {
    let schemas = client.query(SCHEMAS, &[&names]).await?;
    if let Some(row) = schemas.iter().find(|row| row.get(1)) {
        return Ok(Home::of(row.get(0)));
    }
    let found: Vec<&str> = schemas.iter().map(|row| row.get(0)).collect();
    let home = Home::of(found.first().copied().unwrap_or("public"));
    let what = format!(
        "the user of sink.url may not create a table in {}",
        target.name
    );
    let mut error = Error::usage(what)
        .line(format!("schemas  {}", found.join(", ")))
        .line("Beside the target four small tables are kept: which job and run may write, and")
        .line("how far they are. Grant CREATE on a schema, or run once as its owner:");
    for statement in home.statements() {
        error = error.line(statement);
    }
    Err(error.line(home.grant(user)).into())
}

/// The tables, made when there are none; within the transaction of `client`.
pub(super) async fn ensure(
    target: &Target,
    client: &impl GenericClient,
    names: &[String],
) -> Result<Home, Halt> {
    if let Some(home) = find(target, client).await? {
        // The right to create is asked for even where the table is there already.
        let absent = absent(&home, client).await?;
        if !absent.is_empty() {
            client.batch_execute(&absent.concat()).await?;
        }
        return Ok(home);
    }
    let user = target.config.get_user().unwrap_or("…");
    let home = place(target, client, names, user).await?;
    client.batch_execute(&home.statements().concat()).await?;
    Ok(home)
}
