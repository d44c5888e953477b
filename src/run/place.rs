//! Where this process stands in its cluster, and what the run goes on from: the claim of process 0,
//! brought up, read back by all.

use super::of_cluster;
use crate::begin::{self, Begun, Terms};
use crate::checkpoint::Manifest;
use crate::cli::{self, ClusterArgs};
use crate::cluster::{self, ClusterSpec};
use crate::error::Error;
use crate::job::topic_names;
use crate::lease::Lease;
use crate::sink::{Applied, Fence};
use crate::table::Role;
use sha2::{Digest, Sha256};

/// See the module.
pub(super) struct Place {
    pub(super) cluster: Option<cluster::Cluster>,
    /// What the run goes on from.
    pub(super) manifest: Manifest,
    /// How far the target is beyond it.
    pub(super) replay: Vec<Applied>,
    /// Shows others that this run lives; only process 0 has it.
    pub(super) lease: Option<Lease>,
    /// How the run begins; only process 0 knows.
    pub(super) beginning: Beginning,
}

/// What a person should know of how a run begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning {
    /// The checkpoint that it goes on from.
    pub(super) restored_from: Option<u64>,
    /// Why it is not fenced, if it is not.
    pub(super) not_fenced: Option<String>,
    /// What is not proven.
    pub(super) not_proven: Vec<String>,
}

impl Place {
    pub(super) fn find(terms: &Terms<'_>, args: &ClusterArgs) -> Result<Place, Error> {
        let begun = match args.process {
            0 => Some(begin::lead(terms)?),
            _ => None,
        };
        let beginning = begun.as_ref().map(beginning).unwrap_or_default();
        if let Some(begun) = &begun {
            tell(begun, &beginning, terms.sink.keeps_progress());
        }
        let cluster = match args.processes {
            1 => None,
            _ => Some(bring_up(terms, args, begun.as_ref())?),
        };
        let start = cluster
            .as_ref()
            .map(|cluster| cluster.incarnation.to_string());
        let Some(begun) = begun else {
            let job = &terms.config.job.job;
            let start = start.unwrap_or_default();
            let followed = begin::follow(terms.store, job, &start);
            let (cluster, (manifest, replay)) = with(cluster, followed)?;
            return Ok(Place {
                cluster,
                manifest,
                replay,
                lease: None,
                beginning,
            });
        };
        let announced = match start {
            Some(start) => begin::announce(terms.store, &begun, &start),
            None => Ok(()),
        };
        let (cluster, ()) = with(cluster, announced)?;
        Ok(Place {
            cluster,
            manifest: begun.manifest,
            replay: begun.replay,
            lease: Some(begun.lease),
            beginning,
        })
    }
}

/// The cluster with what was done in it; on an error it is let go of without being dropped: that
/// would wait for workers, and there are none yet.
fn with<T>(
    cluster: Option<cluster::Cluster>,
    done: Result<T, Error>,
) -> Result<(Option<cluster::Cluster>, T), Error> {
    match done {
        Ok(done) => Ok((cluster, done)),
        Err(error) => {
            std::mem::forget(cluster);
            Err(error)
        }
    }
}

/// What a person should know of how the run begins.
fn beginning(begun: &Begun) -> Beginning {
    let manifest = &begun.manifest;
    let unseen = manifest.of(Role::Mutations).filter(|s| s.next_offset > 0);
    let unseen = unseen.map(|from| {
        format!(
            "{}[{}] is read from offset {}; mutations before it are not seen. They must be older \
             than the snapshot's start minus `retention.start_margin`",
            from.topic, from.partition, from.next_offset
        )
    });
    Beginning {
        restored_from: begun.from.filter(|_| !begun.fresh),
        not_fenced: match &begun.claimed.fence {
            Fence::None(reason) => Some(reason.clone()),
            Fence::Fenced => None,
        },
        not_proven: unseen.filter(|_| begun.fresh).collect(),
    }
}

/// Says it.
fn tell(begun: &Begun, beginning: &Beginning, keeps_progress: bool) {
    let manifest = &begun.manifest;
    if let Some(reason) = &beginning.not_fenced {
        cli::note(&format!(
            "not fenced: an older run that still lives could write the target after this one: \
             {reason}"
        ));
    }
    if let Some(number) = beginning.restored_from {
        let markers: u64 = manifest.markers.runs.iter().map(|run| run.markers).sum();
        cli::note(&format!(
            "goes on from checkpoint {number}: {} ms of job time, {markers} markers; this is \
             incarnation {}",
            manifest.time.now_ms, manifest.incarnation
        ));
        if !begun.replay.is_empty() {
            cli::note(match keeps_progress {
                true => "what the target has seen since is read again, and written at once",
                false => {
                    "rows since the checkpoint are written again, in order: readers of the target \
                     may see keys go back until the job is where the topics end now"
                }
            });
        }
        return;
    }
    for what in &beginning.not_proven {
        cli::note(&format!("not proven: {what}"));
    }
}

fn bring_up(
    terms: &Terms<'_>,
    args: &ClusterArgs,
    begun: Option<&Begun>,
) -> Result<cluster::Cluster, Error> {
    let config = terms.config;
    let hosts = match &args.hostfile {
        Some(path) => cluster::read_hostfile(path).map_err(|error| of_cluster(&error))?,
        None => Vec::new(),
    };
    let secret = config.cluster.secret.as_ref();
    let secret = secret.map(|secret| secret.resolve()).transpose()?;
    let spec = ClusterSpec {
        job: config.job.job.clone(),
        config_hash: agreement(terms)?,
        threads: args.workers,
        processes: args.processes,
        process: args.process,
        hosts,
        secret: secret.map(|secret| secret.expose().as_bytes().to_vec()),
        deadline: config.cluster.deadline,
        number: begun.map_or(0, |begun| begun.manifest.incarnation),
    };
    cluster::bring_up(&spec, &mut |text| cli::note(text)).map_err(|error| of_cluster(&error))
}

/// What all processes must agree on: the configuration, and the topics as each sees them.
fn agreement(terms: &Terms<'_>) -> Result<[u8; 32], Error> {
    let mut digest = Sha256::new();
    digest.update(terms.config.agreement());
    for role in [Role::Mutations, Role::Snapshot] {
        for topic in topic_names(terms.tables, role) {
            digest.update(topic.as_bytes());
            digest.update([0]);
            digest.update(terms.topics.partition_count(&topic)?.to_le_bytes());
        }
    }
    Ok(digest.finalize().into())
}
