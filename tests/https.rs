//! TLS of outgoing requests, by a server of this test: a certificate that is trusted is taken, one
//! that is not is refused by name. The job's webhook and `init --connect` have one client.
//!
//! The certificates of `tests/fixtures/tls` are valid until 2126; their authority's key is gone.

#![cfg(feature = "https")]

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/tls")
        .join(name)
}

/// A server that answers every request with an empty JSON list; its port.
fn server() -> u16 {
    let chain = [CertificateDer::from_pem_file(fixture("leaf.pem")).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(fixture("leaf.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain.to_vec(), key)
        .expect("they belong together");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = rustls::StreamOwned::new(session, stream.expect("accepted"));
            // A client that does not trust it ends the handshake.
            let _ = answer(&mut stream);
        }
    });
    port
}

fn answer(stream: &mut (impl std::io::Read + Write)) -> std::io::Result<()> {
    let mut lines = BufReader::new(&mut *stream).lines();
    while let Some(line) = lines.next().transpose()? {
        if line.is_empty() {
            break;
        }
    }
    drop(lines);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    write!(stream, "{head}Connection: close\r\n\r\n[]")?;
    stream.flush()
}

fn init(port: u16, trusted: Option<&str>) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.current_dir(folder.path());
    command.args(["init", "--connect", &format!("https://localhost:{port}")]);
    command.args(["--connector", "app"]);
    if let Some(name) = trusted {
        command.env("SSL_CERT_FILE", fixture(name));
    }
    command.output().expect("it runs")
}

#[test]
fn a_certificate_is_verified() {
    let port = server();
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let stranger = init(port, None);
    assert_ne!(stranger.status.code(), Some(0));
    assert!(
        said(&stranger).contains("certificate"),
        "{}",
        said(&stranger)
    );
    let trusted = said(&init(port, Some("ca.pem")));
    assert!(!trusted.contains("certificate"), "{trusted}");
    assert!(
        trusted.contains("app"),
        "it was answered, and has no such connector: {trusted}"
    );
}
