//! The rights that the job and the snapshot connector need, as commands to run.

use super::plan::Plan;
use crate::config::choices::SinkKind;
use crate::sink::postgres::catalogue::sql_name;

/// Kafka ACLs and PostgreSQL GRANTs.
pub(super) fn text(plan: &Plan) -> String {
    acls(plan) + &grants(plan)
}

fn acls(plan: &Plan) -> String {
    let base = format!(
        "kafka-acls.sh --bootstrap-server {} --add --allow-principal User:headwater",
        plan.from.brokers
    );
    let mut out = "\n# Kafka ACLs of the job (principal User:headwater).\n".to_owned();
    let mut add = |operations: &[&str], what: String| {
        let operations: Vec<String> = operations
            .iter()
            .map(|operation| format!("--operation {operation}"))
            .collect();
        out.push_str(&format!("{base} {} {what}\n", operations.join(" ")));
    };
    let mut read: Vec<&str> = Vec::new();
    let heartbeat = plan.heartbeat.as_deref();
    let topics = plan.tables.iter().map(|table| table.mutations.as_str());
    for topic in topics.chain(heartbeat) {
        if !read.contains(&topic) {
            read.push(topic);
        }
    }
    for topic in read {
        add(
            &["Read", "Describe", "DescribeConfigs"],
            format!("--topic {topic}"),
        );
    }
    // `headwater end-snapshot` writes there.
    add(
        &["Read", "Write", "Describe", "DescribeConfigs"],
        format!(
            "--topic {}. --resource-pattern-type prefixed",
            plan.snapshot
        ),
    );
    add(&["Read"], format!("--group {}", plan.job));
    if plan.from.sink == SinkKind::Kafka {
        for topic in target_topics(plan) {
            add(&["Write", "Describe"], format!("--topic {topic}"));
        }
        add(
            &["Write", "Describe"],
            format!(
                "--transactional-id {}/ --resource-pattern-type prefixed",
                plan.job
            ),
        );
    }
    out
}

/// As the configuration names them.
fn target_topics(plan: &Plan) -> Vec<String> {
    match (&plan.from.topic, plan.tables.as_slice()) {
        (Some(topic), _) => vec![topic.clone()],
        (None, [one]) => vec![format!("merged.{}", one.name)],
        (None, several) => several.iter().map(|table| table.name.clone()).collect(),
    }
}

fn grants(plan: &Plan) -> String {
    if plan.database.is_none() && plan.from.sink != SinkKind::Postgres {
        return String::new();
    }
    let names: Vec<String> = plan
        .tables
        .iter()
        .map(|table| sql_name(&table.name))
        .collect();
    let tables = names.join(", ");
    let mut out = String::new();
    if plan.database.is_some() {
        let user = plan.live.or("database.user", "USER");
        let user = crate::sink::target::quoted(user);
        out.push_str(&format!(
            "\n-- PostgreSQL GRANTs at the source: the snapshot connector and `headwater verify`\n\
             -- read the tables; `check` reads the catalogue, which needs no right.\n\
             GRANT SELECT ON {tables} TO {user};\n"
        ));
    }
    if plan.from.sink == SinkKind::Postgres {
        out.push_str(&format!(
            "\n-- PostgreSQL GRANTs at the target, for the user of sink.url. CREATE is for the\n\
             -- three small tables of the first start.\n\
             GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO headwater;\n\
             GRANT USAGE, CREATE ON SCHEMA public TO headwater;\n"
        ));
    }
    out
}
