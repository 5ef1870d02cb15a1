//! Counts of what is answered with an error: of a batch, each check that is refused.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::telemetry::meter::FrontEndName;

/// What is wrong with commands of Redis clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespError {
    /// An argument is out of range, there are too few or too many, or the command does not fit what
    /// came before it.
    InvalidRequest,
    UnknownCommand,
    /// The client has not given the password.
    NoPassword,
    WrongPassword,
    /// All transactions together leave none.
    NoRoom,
    /// A violation of the protocol, which ends the connection.
    Protocol,
}

impl RespError {
    const ALL: [Self; 6] = [
        Self::InvalidRequest,
        Self::UnknownCommand,
        Self::NoPassword,
        Self::WrongPassword,
        Self::NoRoom,
        Self::Protocol,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::UnknownCommand => "unknown_command",
            Self::NoPassword => "no_password",
            Self::WrongPassword => "wrong_password",
            Self::NoRoom => "no_room",
            Self::Protocol => "protocol",
        }
    }
}

/// Errors by front-end and code. Codes are of fixed sets, never what a client sends.
#[derive(Debug)]
pub struct Errors(Family<ErrorLabels, Counter>);

impl Errors {
    /// Those of Redis clients are there from the start.
    pub fn register(registry: &mut Registry) -> Self {
        let family = Family::<ErrorLabels, Counter>::default();
        registry.register("errors", "Checks and requests answered with an error", family.clone());
        let errors = Self(family);
        for error in RespError::ALL {
            errors.count_resp(error, 0);
        }
        errors
    }

    /// Counts errors of Redis clients.
    pub fn count_resp(&self, error: RespError, count: usize) {
        self.count(FrontEndName::Resp, error.name(), count);
    }

    /// Counts errors of HTTP clients, by the code of their answers.
    pub fn count_http(&self, code: &'static str, count: usize) {
        self.count(FrontEndName::Http, code, count);
    }

    fn count(&self, front_end: FrontEndName, code: &'static str, count: usize) {
        let labels = ErrorLabels { frontend: front_end.label(), code };
        self.0.get_or_create(&labels).inc_by(count as u64);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    frontend: &'static str,
    code: &'static str,
}
