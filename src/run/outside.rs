//! What process 0 looks at beside the dataflow: how long topics are, and evidence of readiness.
//!
//! Invariant: it is started before the peers are waited for, so that an error ends nothing half
//! way; and it holds nobody up.

use super::settings;
use crate::config::Config;
use crate::error::Error;
use crate::generation::witness::Witness;
use crate::highs::{self, Highs, HighsWatch};
use crate::topic::Topics;
use std::sync::Arc;

/// Looks until it is dropped.
pub(super) struct Outside {
    /// How long topics are.
    pub(super) highs: Option<Arc<Highs>>,
    /// Evidence of readiness.
    pub(super) witness: Option<Arc<dyn Witness>>,
    _watch: Option<HighsWatch>,
}

impl Outside {
    /// At process 0; elsewhere nothing is looked at.
    pub(super) fn start(
        process: usize,
        config: &Config,
        topics: &Arc<dyn Topics>,
    ) -> Result<Outside, Error> {
        if process > 0 {
            return Ok(Outside {
                highs: None,
                witness: None,
                _watch: None,
            });
        }
        let highs = Arc::new(Highs::default());
        Ok(Outside {
            witness: settings::witness(config, topics)?,
            _watch: Some(highs::watch(Arc::clone(topics), Arc::clone(&highs))?),
            highs: Some(highs),
        })
    }
}
