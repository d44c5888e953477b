//! Where the control plane listens, and where a program asks it.
//!
//! Pure: nothing is resolved. A name that merely resolves to loopback does not count as loopback:
//! it may resolve elsewhere tomorrow.

use crate::error::Error;
use std::fmt;
use std::net::IpAddr;

/// `control.listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Not at all.
    Off,
    /// On an address.
    At(Address),
}

/// A host and a port; port 0 takes a free one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address, IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Listen {
    /// Reads `HOST:PORT`, or `off` or nothing.
    ///
    /// # Errors
    /// Of usage.
    pub fn parse(text: &str) -> Result<Listen, Error> {
        let text = text.trim();
        if text.is_empty() || text == "off" {
            return Ok(Listen::Off);
        }
        let wrong = || {
            Error::usage("`control.listen` is no address")
                .line(format!("found     {text}"))
                .line("expected  HOST:PORT, as in 127.0.0.1:7070 or [::1]:7070; or off")
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = inner.unwrap_or(host);
        let bare_v6 = inner.is_none() && host.contains(':');
        let odd = |c: char| c.is_whitespace() || c == '/' || c == '[' || c == ']' || c == '@';
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
        if host.is_empty() || bare_v6 || host.contains(odd) {
            return Err(wrong());
        }
        let host = host.to_owned();
        Ok(Listen::At(Address { host, port }))
    }
}

impl Address {
    /// That of process `process`: its port is so many above.
    ///
    /// # Errors
    /// Of usage when there is no such port.
    pub fn of_process(&self, process: usize) -> Result<Address, Error> {
        let port = match self.port {
            0 => Some(0),
            port => u16::try_from(process)
                .ok()
                .and_then(|more| port.checked_add(more)),
        };
        let port = port.ok_or_else(|| {
            Error::usage("`control.listen` has no port for this process")
                .line(format!(
                    "found     port {} for process 0, and process {process}",
                    self.port
                ))
                .line("expected  ports up to 65535: process p listens on port + p")
        })?;
        let host = self.host.clone();
        Ok(Address { host, port })
    }

    /// Whether only programs on this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Where a program on this machine asks: every address is loopback too.
    #[must_use]
    pub fn asked(&self) -> Address {
        let host = match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "127.0.0.1".to_owned(),
            Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "::1".to_owned(),
            _ => self.host.clone(),
        };
        let port = self.port;
        Address { host, port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

/// Whether a host, without brackets, can only be this machine, judged by its text.
pub(super) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The host of `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`.
pub(super) fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
}

/// Where process 0 answers for the job, as another process can tell: the address, or why not.
pub(super) fn of_process_0(listen: &Address, hosts: &[String]) -> Result<Address, String> {
    if listen.port == 0 {
        return Err("`control.listen` has port 0, so its port is not known here".to_owned());
    }
    let Some(host) = hosts.first().map(|address| host_of(address)) else {
        return Err("the hostfile does not name process 0".to_owned());
    };
    let port = listen.port;
    match (listen.is_loopback(), is_loopback(host)) {
        // All of the cluster is on this machine.
        (_, true) => Ok(listen.asked()),
        (false, false) => Ok(Address {
            host: host.to_owned(),
            port,
        }),
        (true, false) => Err(format!(
            "process 0 listens on {listen} of {host}, which only programs there can reach"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Listen, host_of, of_process_0};
    use crate::error::ErrorKind;

    fn at(text: &str) -> Address {
        match Listen::parse(text) {
            Ok(Listen::At(address)) => address,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn addresses_read_and_print() {
        for (text, loopback) in [
            ("127.0.0.1:7070", true),
            ("127.9.9.9:0", true),
            ("[::1]:80", true),
            ("localhost:7070", true),
            ("0.0.0.0:7070", false),
            ("[::]:7070", false),
            ("10.0.0.1:7070", false),
            ("localhost.example:7070", false),
        ] {
            assert_eq!(at(text).to_string(), text);
            assert_eq!(at(text).is_loopback(), loopback, "{text}");
        }
        for off in ["off", "", "  "] {
            assert_eq!(Listen::parse(off), Ok(Listen::Off));
        }
        for bad in [
            "7070",
            ":7070",
            "a:b",
            "a:70700",
            "a:+1",
            "::1:7070",
            "http://a:1",
            "a b:1",
        ] {
            let error = Listen::parse(bad).expect_err(bad);
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.text.contains("control.listen"), "{error}");
        }
    }

    #[test]
    fn a_process_has_a_port_of_its_own() {
        assert_eq!(at("a:7070").of_process(3), Ok(at("a:7073")));
        assert_eq!(at("a:0").of_process(3), Ok(at("a:0")));
        assert!(at("a:65535").of_process(1).is_err());
        assert_eq!(at("0.0.0.0:1").asked(), at("127.0.0.1:1"));
        assert_eq!(at("[::]:1").asked(), at("[::1]:1"));
        assert_eq!(at("db:1").asked(), at("db:1"));
    }

    #[test]
    fn a_host_is_found_in_what_a_client_sends() {
        for (text, host) in [
            ("localhost", "localhost"),
            ("localhost:7070", "localhost"),
            ("[::1]:7070", "::1"),
            ("[::1]", "::1"),
            ("evil.example:7070", "evil.example"),
        ] {
            assert_eq!(host_of(text), host);
        }
    }

    #[test]
    fn process_0_is_found_where_it_can_be_reached() {
        let hosts = |host: &str| vec![host.to_owned(), "b:2101".to_owned()];
        let found = |listen: &str, host: &str| of_process_0(&at(listen), &hosts(host));
        assert_eq!(
            found("127.0.0.1:7070", "127.5.5.5:1"),
            Ok(at("127.0.0.1:7070"))
        );
        assert_eq!(found("0.0.0.0:7070", "a.lan:2101"), Ok(at("a.lan:7070")));
        assert_eq!(
            found("0.0.0.0:7070", "127.0.0.1:1"),
            Ok(at("127.0.0.1:7070"))
        );
        let far = found("127.0.0.1:7070", "a.lan:2101").expect_err("only there");
        assert!(far.contains("a.lan"), "{far}");
        assert!(found("127.0.0.1:0", "127.0.0.1:1").is_err());
        assert!(of_process_0(&at("127.0.0.1:1"), &[]).is_err());
    }
}
