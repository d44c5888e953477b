//! Where events go: a Kafka topic, a folder `file:PATH`, or a webhook.
//!
//! It cannot reach the place: it only reads what was written.

use crate::config::Config;
use crate::error::Error;
use crate::https;
use crate::sink::kafka::LogTopic;
use crate::topic::file::PREFIX;
use std::path::PathBuf;

/// See the module.
#[derive(Clone, Debug)]
pub enum Place {
    /// A topic of the brokers of `[kafka]`.
    Kafka(LogTopic),
    /// The folder of a topic of one partition; made when it is not there.
    Folder(PathBuf),
    /// Each event is posted there.
    Webhook {
        /// With everything that may be secret in it.
        url: String,
        /// For messages: without path, query, user and password.
        shown: String,
    },
}

impl Place {
    /// What `control.events` says, if it is set.
    ///
    /// # Errors
    /// Of usage: what cannot be written, or is read or written by the job already.
    pub fn of(config: &Config) -> Result<Option<Place>, Error> {
        let Some(events) = &config.control.events else {
            return Ok(None);
        };
        let text = events.resolve()?;
        let text = text.expose();
        if text.contains("://") {
            return webhook(text).map(Some);
        }
        let mut taken = config
            .tables
            .iter()
            .flat_map(|table| [&table.mutations, &table.snapshot])
            .chain(config.sink.topic.iter().chain(config.sink.names.values()));
        if taken.any(|topic| topic == text) {
            return Err(Error::usage(format!(
                "`control.events` names topic `{text}`, which has rows in it"
            ))
            .line("expected  a topic of its own"));
        }
        if let Some(path) = text.strip_prefix(PREFIX) {
            return match path {
                "" => Err(Error::usage("`control.events` has no path")
                    .line("expected  `file:PATH`, the folder of a topic")),
                path => Ok(Some(Place::Folder(PathBuf::from(path)))),
            };
        }
        let topic = LogTopic::new("control.events", text, &config.kafka_properties()?)?;
        Ok(Some(Place::Kafka(topic)))
    }
}

fn webhook(url: &str) -> Result<Place, Error> {
    let wrong = |found: &str| {
        Error::usage("`control.events` is no webhook that can be reached")
            .line(format!("found     {found}"))
            .line("expected  http(s)://HOST/PATH, a Kafka topic, or `file:PATH`")
    };
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if scheme == "https" && !https::SPOKEN {
        return Err(wrong("https").line(https::NOT_SPOKEN));
    }
    if !["http", "https"].contains(&scheme) {
        return Err(wrong(&format!("{scheme}://")));
    }
    let uri: ureq::http::Uri = url
        .parse()
        .map_err(|error: ureq::http::uri::InvalidUri| wrong(&error.to_string()))?;
    let host = uri.authority().map(|authority| {
        let place = authority.as_str();
        place.rsplit_once('@').map_or(place, |(_, host)| host)
    });
    let host = host.filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| wrong("no host"))?;
    debug_assert!(rest.contains(host));
    Ok(Place::Webhook {
        shown: format!("{scheme}://{host}"),
        url: url.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::Place;
    use crate::config::Config;

    fn place(events: &str) -> Result<String, String> {
        let text = format!(
            "[kafka]\n\"bootstrap.servers\" = \"h:1\"\n[[table]]\nname = \"a\"\n\
             mutations = \"m\"\nsnapshot = \"file:s\"\n[sink]\nkind = \"kafka\"\ntopic = \"out\"\n\
             [control]\nevents = \"{events}\"\n"
        );
        let loaded = Config::parse("test", &text, &[]).map_err(|error| error.text)?;
        assert!(loaded.notices.is_empty(), "{:?}", loaded.notices);
        let place = Place::of(&loaded.config).map_err(|error| error.text)?;
        Ok(match place.expect("it is set") {
            Place::Kafka(topic) => format!("kafka {}", topic.name),
            Place::Folder(path) => format!("folder {}", path.display()),
            Place::Webhook { url, shown } => format!("post {url} as {shown}"),
        })
    }

    #[test]
    fn a_place_is_what_it_looks_like() {
        for (events, expected) in [
            ("generations", "kafka generations"),
            ("file:events", "folder events"),
            ("http://h:8/x?t=1", "post http://h:8/x?t=1 as http://h:8"),
            ("http://u:p@h/x", "post http://u:p@h/x as http://h"),
            ("https://h/x", "post https://h/x as https://h"),
        ] {
            assert_eq!(place(events), Ok(expected.to_owned()));
        }
        for (events, expected) in [
            ("m", "has rows in it"),
            ("file:s", "has rows in it"),
            ("out", "has rows in it"),
            ("file:", "no path"),
            ("ftp://h/x", "ftp://"),
            ("http://", "no webhook"),
        ] {
            let error = place(events).expect_err(events);
            assert!(error.contains(expected), "{events}: {error}");
        }
        assert!(Place::of(&Config::default()).expect("not set").is_none());
    }
}
