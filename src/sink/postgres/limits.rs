//! Time limits of a connection, so that a server which is gone without a word (a pulled cable, a
//! firewall that forgot the flow) shows as an error and the batch is tried again.
//!
//! Invariant: what the URL says stays; `statement_timeout` in its `options`, too.
//!
//! It cannot see a server process that is stopped on a machine that still answers.

use std::time::Duration;
use tokio_postgres::Config;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that sent bytes wait for the other side's acknowledgement (Linux).
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);
/// While an answer is waited for nothing is sent, so probes must find out: after 10 s of silence,
/// every 5 s, given up on after 4.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVES_RETRIES: u32 = 4;
/// A batch is small; a statement of this age waits for a lock that nobody gives back.
const STATEMENT_TIMEOUT: &str = "5min";

/// Puts the limits that `url` does not set.
pub(crate) fn put(config: &mut Config, url: &str) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
    }
    // The client has a default of its own for this one, which does not tell who set it.
    if !url.contains("keepalives_idle") {
        config.keepalives_idle(KEEPALIVES_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVES_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVES_RETRIES);
    }
    let options = config.get_options().unwrap_or_default();
    if !options.contains("statement_timeout") {
        let options = format!("{options} -c statement_timeout={STATEMENT_TIMEOUT}");
        config.options(options.trim_start());
    }
}

#[cfg(test)]
mod tests {
    use super::put;
    use std::time::Duration;
    use tokio_postgres::Config;

    fn limited(url: &str) -> Config {
        let mut config = url.parse().unwrap();
        put(&mut config, url);
        config
    }

    #[test]
    fn a_url_that_says_nothing_gets_all() {
        let config = limited("postgres://u@h/d?options=-c%20lock_timeout%3D1s");
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(config.get_connect_timeout().copied(), seconds(10));
        assert_eq!(config.get_tcp_user_timeout().copied(), seconds(30));
        assert_eq!(Some(config.get_keepalives_idle()), seconds(10));
        assert_eq!(config.get_keepalives_interval(), seconds(5));
        assert_eq!(config.get_keepalives_retries(), Some(4));
        let options = config.get_options();
        assert_eq!(
            options,
            Some("-c lock_timeout=1s -c statement_timeout=5min")
        );
    }

    #[test]
    fn what_the_url_says_stays() {
        let url = "postgres://u@h/d?connect_timeout=1&tcp_user_timeout=2&keepalives_idle=7200&\
            keepalives_interval=3&keepalives_retries=9&options=-c%20statement_timeout%3D0";
        let config = limited(url);
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(config.get_connect_timeout().copied(), seconds(1));
        assert_eq!(config.get_tcp_user_timeout().copied(), seconds(2));
        assert_eq!(Some(config.get_keepalives_idle()), seconds(7200));
        assert_eq!(config.get_keepalives_interval(), seconds(3));
        assert_eq!(config.get_keepalives_retries(), Some(9));
        assert_eq!(config.get_options(), Some("-c statement_timeout=0"));
    }
}
