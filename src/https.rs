//! TLS of requests to others: webhooks and Kafka Connect.
//!
//! Invariant: a certificate is always verified, against those that the system trusts (on Linux also
//! a file that `SSL_CERT_FILE` names).
//!
//! It cannot serve TLS, nor show a certificate of its own. Without the feature `https` it can do
//! nothing, and says so.

use ureq::config::{Config, ConfigBuilder};
use ureq::typestate::AgentScope;

/// Whether this program speaks it.
pub(crate) const SPOKEN: bool = cfg!(feature = "https");
/// What is said when it does not.
pub(crate) const NOT_SPOKEN: &str =
    "this program was built without the feature `https`: use one with it, or a local proxy";

/// Settings of a client: no proxy of the environment, an answer of any status is an answer.
pub(crate) fn client() -> ConfigBuilder<AgentScope> {
    let builder = Config::builder().http_status_as_error(false).proxy(None);
    #[cfg(feature = "https")]
    let builder = builder.tls_config(
        ureq::tls::TlsConfig::builder()
            .provider(ureq::tls::TlsProvider::Rustls)
            .root_certs(ureq::tls::RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(std::sync::Arc::new(
                rustls::crypto::ring::default_provider(),
            ))
            .build(),
    );
    builder
}
