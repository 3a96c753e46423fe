//! A setting as data: its name, what it is for, its values, and the error for a value that is none of them.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::convert;

/// The allowed values of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedValues {
    /// As a description.
    Words(&'static str),
    /// As a list of which one is written.
    OneOf(&'static [&'static str]),
}

impl fmt::Display for AllowedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllowedValues::Words(words) => f.write_str(words),
            AllowedValues::OneOf([names @ .., last]) if !names.is_empty() => {
                write!(f, "{} or {last}", names.join(", "))
            }
            AllowedValues::OneOf(names) => f.write_str(&names.concat()),
        }
    }
}

/// One environment variable.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its default, as a user would write it; `None` if leaving it unset has a meaning of its own.
    pub default: Option<&'static str>,
    /// The unit of its value; empty if it has none.
    pub unit: &'static str,
    /// The allowed values.
    pub values: AllowedValues,
    /// What it is for, and what leaving it unset means.
    pub help: &'static str,
    /// Whether its value is never shown.
    pub secret: bool,
    /// What it belongs to.
    pub scope: Scope,
}

/// What a setting belongs to, as the doctor must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The job's own network or files: it is left out where two ranks of one machine are tried.
    Job,
    /// A rank of the job: as [`Scope::Job`], and ranks may differ in it.
    Rank,
    /// Neither.
    Any,
}

impl Setting {
    /// The value, or the default if there is one. Also notes the values that were set.
    pub(super) fn take_value<T>(
        &self,
        values: &mut BTreeMap<String, String>,
        set: &mut BTreeMap<&'static str, String>,
        read: fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let value = values.remove(self.name).filter(|value| !value.trim().is_empty());
        if let Some(value) = &value {
            set.insert(self.name, if self.secret { "set" } else { value }.to_owned());
        }
        // Spaces around a secret are part of it.
        let text = value.as_deref().map(|value| if self.secret { value } else { value.trim() });
        let read = |text| read(text).map_err(|reason| self.refuse(text, reason));
        text.or(self.default).map(read).transpose()
    }

    fn refuse(&self, value: &str, reason: String) -> ConfigError {
        ConfigError { variable: self.name, value: value.to_owned(), reason, values: self.values }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueOrigin {
    /// It is the default.
    Default,
    /// The variable is set.
    Environment,
}

/// A row of what `ringroad info` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingEntry {
    /// The variable.
    pub setting: &'static Setting,
    /// Its value as written. `set` for a secret; `None` if it is unset and has no default.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: ValueOrigin,
}

/// The error for a variable whose value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value:?} cannot be used{}; expected {values}", if reason.is_empty() { String::new() } else { format!(": {reason}") })]
pub struct ConfigError {
    /// The variable's name.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with the value, if the allowed values do not show it.
    pub reason: String,
    /// The allowed values.
    pub values: AllowedValues,
}

convert! {
    ConfigError => Config,
}
