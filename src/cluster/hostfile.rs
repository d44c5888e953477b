//! The hostfile: line p (comments and blank lines not counted, from 0) is the address of process p.
//!
//! Invariant: what is returned has the form `host:port` with a port from 1 to 65535. A process
//! listens on exactly the address that the others dial: a listen address of its own (behind NAT) is
//! not supported.

use super::error::{ClusterError, printable};

/// Longest host name taken, bytes (DNS allows 253).
const HOST_BYTES_MAX: usize = 255;

/// Reads the addresses of a hostfile, in order of process.
///
/// # Errors
/// [`ClusterError::HostfileLine`] with the line number of the first line that is not an address.
pub fn parse_hostfile(text: &str) -> Result<Vec<String>, ClusterError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut hosts = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = raw.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        check_address(line).map_err(|reason| ClusterError::HostfileLine {
            path: None,
            line: index + 1,
            found: printable(line, 80),
            reason,
        })?;
        hosts.push(line.to_owned());
    }
    Ok(hosts)
}

/// [`parse_hostfile`] of the file at `path`; errors name the file.
///
/// # Errors
/// [`ClusterError::HostfileUnreadable`], [`ClusterError::HostfileLine`].
pub fn read_hostfile(path: &std::path::Path) -> Result<Vec<String>, ClusterError> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| ClusterError::HostfileUnreadable {
            path: name.clone(),
            source,
        })?;
    parse_hostfile(&text).map_err(|error| match error {
        ClusterError::HostfileLine {
            line,
            found,
            reason,
            ..
        } => ClusterError::HostfileLine {
            path: Some(name),
            line,
            found,
            reason,
        },
        other => other,
    })
}

/// Whether `address` has the form `host:port`; else what is wrong with it.
pub(super) fn check_address(address: &str) -> Result<(), String> {
    if address.contains(char::is_whitespace) {
        return Err("holds more than one word".to_owned());
    }
    let Some((host, port)) = address.rsplit_once(':') else {
        return Err("has no port".to_owned());
    };
    if host.is_empty() {
        return Err("has no host".to_owned());
    }
    if host.len() > HOST_BYTES_MAX {
        return Err(format!(
            "has a host of {} bytes, over {HOST_BYTES_MAX}",
            host.len()
        ));
    }
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.contains(':') && !bracketed {
        return Err("is an IPv6 address without brackets".to_owned());
    }
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(1..) if digits => Ok(()),
        _ => Err("has a port that is not a number from 1 to 65535".to_owned()),
    }
}

/// Whether `address` can only be this machine, judged by its text: `localhost`, 127.x.y.z, `[::1]`.
/// A name that merely resolves to loopback does not count: it may resolve elsewhere tomorrow.
pub(super) fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{is_loopback, parse_hostfile, read_hostfile};

    #[test]
    fn comments_blank_lines_and_windows_line_ends_are_fine() {
        let text =
            "\u{feff}# the cluster\r\n\r\n10.0.0.1:2101 # rack 1\n\n  [::1]:2102\ndb-2.lan:1\n";
        let hosts = parse_hostfile(text).unwrap();
        assert_eq!(hosts, ["10.0.0.1:2101", "[::1]:2102", "db-2.lan:1"]);
        assert!(parse_hostfile("# nothing\n").unwrap().is_empty());
    }

    #[test]
    fn a_bad_line_is_named_with_its_number() {
        for (text, line, reason) in [
            ("a:1\nb\n", "line 2", "has no port"),
            ("# c\n\n:7\n", "line 3", "has no host"),
            ("a:0", "line 1", "not a number from 1"),
            ("a:65536", "line 1", "not a number from 1"),
            ("a:+80", "line 1", "not a number from 1"),
            ("a:1 b:2", "line 1", "more than one word"),
            ("::1:2101", "line 1", "without brackets"),
        ] {
            let error = parse_hostfile(text).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains(line) && message.contains(reason),
                "{text:?}: {message}"
            );
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts.txt");
        assert!(
            read_hostfile(&path)
                .unwrap_err()
                .to_string()
                .contains("hosts.txt")
        );
        std::fs::write(&path, "a:1\nb\n").unwrap();
        let message = read_hostfile(&path).unwrap_err().to_string();
        assert!(message.contains("hosts.txt, line 2"), "{message}");
    }

    #[test]
    fn only_the_text_of_an_address_makes_it_loopback() {
        for address in ["localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["10.0.0.1:1", "0.0.0.0:1", "localhost.example:1", "[::2]:1"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
