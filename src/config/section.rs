//! Sections of the configuration, each declared once: keys, types, defaults, comments.
//!
//! Invariant: a section's fields, the keys that are known, and what `headwater config` prints are
//! the same list, because one declaration makes all three.

use super::tree::Node;
use super::value::Fault;

/// What a key means in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is used.
    Built,
    /// It is used and has no default.
    Required,
    /// It is known, not used yet, and a person who sets it is told so.
    Later,
}

/// A key of a section.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it does, one line each.
    pub about: &'static [&'static str],
    /// What it means in this build.
    pub state: State,
    /// What is expected of its value.
    pub expected: String,
    /// How a value may look.
    pub example: String,
    /// Its default in TOML, if it has one.
    pub default: Option<String>,
}

/// A section: a struct whose fields are keys.
pub trait Section {
    /// What it is for, one line each.
    fn about(&self) -> &'static [&'static str];

    /// Its keys, in order.
    fn keys(&self) -> Vec<Key>;

    /// Reads key `name`, called `path` in messages; `None` when there is no such key.
    fn read(&mut self, name: &str, path: &str, node: &Node) -> Option<Result<(), Fault>>;

    /// The values in TOML, in the order of the keys; `None` when not set.
    fn values(&self) -> Vec<Option<String>>;
}

/// Declares a section: `key: Type = default, State;`. The comments are printed by
/// `headwater config`.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        pub struct $Name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $Type:ty = $default:expr, $state:ident;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Name {
            $( $(#[doc = $doc])* pub $field: $Type, )*
        }

        impl Default for $Name {
            fn default() -> Self {
                $Name { $( $field: $default, )* }
            }
        }

        impl $crate::config::section::Section for $Name {
            fn about(&self) -> &'static [&'static str] {
                &[$($about),*]
            }

            fn keys(&self) -> Vec<$crate::config::section::Key> {
                use $crate::config::section::{Key, State};
                use $crate::config::value::Value;
                let defaults = $Name::default();
                vec![$(
                    Key {
                        name: stringify!($field),
                        about: &[$($doc),*],
                        state: State::$state,
                        expected: <$Type as Value>::expected(),
                        example: <$Type as Value>::example(),
                        default: (State::$state != State::Required)
                            .then(|| defaults.$field.write())
                            .flatten(),
                    },
                )*]
            }

            fn read(
                &mut self,
                name: &str,
                path: &str,
                node: &$crate::config::tree::Node,
            ) -> Option<Result<(), $crate::config::value::Fault>> {
                use $crate::config::value::Value;
                match name {
                    $(
                        stringify!($field) => Some(
                            <$Type as Value>::read(node, path).map(|value| self.$field = value),
                        ),
                    )*
                    _ => None,
                }
            }

            fn values(&self) -> Vec<Option<String>> {
                use $crate::config::value::Value;
                vec![$( self.$field.write() ),*]
            }
        }
    };
}

/// Declares a setting that is one of a few words.
macro_rules! choice {
    (
        $(#[$about:meta])*
        pub enum $Name:ident {
            $( $(#[$doc:meta])* $Variant:ident = $word:literal, )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Name {
            $( $(#[$doc])* $Variant, )*
        }

        impl $Name {
            /// The word that is written.
            pub fn word(self) -> &'static str {
                match self {
                    $( $Name::$Variant => $word, )*
                }
            }

            /// The choice that a word stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $( $word => Some($Name::$Variant), )*
                    _ => None,
                }
            }
        }

        impl $crate::config::value::Value for $Name {
            fn expected() -> String {
                concat!("one of", $( " \"", $word, "\"", )*).to_owned()
            }

            fn example() -> String {
                let words = [$( $word ),*];
                $crate::config::value::quoted(words[0])
            }

            fn read(
                node: &$crate::config::tree::Node,
                _: &str,
            ) -> Result<Self, $crate::config::value::Fault> {
                let word = match &node.tree {
                    $crate::config::tree::Tree::Text(word)
                    | $crate::config::tree::Tree::Bare(word) => Some(word),
                    _ => None,
                };
                word.and_then(|word| Self::from_word(word)).ok_or_else(|| {
                    $crate::config::value::Fault::Mismatch {
                        place: node.place.clone(),
                        found: node.tree.found(),
                    }
                })
            }

            fn write(&self) -> Option<String> {
                Some($crate::config::value::quoted(self.word()))
            }
        }
    };
}

pub(crate) use {choice, section};
