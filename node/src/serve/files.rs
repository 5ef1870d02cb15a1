//! The files that the command line names.

use std::sync::Arc;

use tidegate_cluster::Trust;
use tokio::sync::Semaphore;

use super::threads;
use crate::config::cli::ServeArgs;
use crate::config::file::{self, LimitConfig};
use crate::config::password::Password;
use crate::config::trust;

/// Reads of one [`Reader`] that do not end, as of pipes, at most.
const MAX_READS: usize = 64;

/// What the files of the command line say.
pub struct Files {
    pub limits: Vec<LimitConfig>,
    pub password: Option<Password>,
    pub trust: Option<Trust>,
}

impl Files {
    /// # Errors
    /// One line that names the flag and the file.
    pub fn read(args: &ServeArgs) -> Result<Self, String> {
        Ok(Self { limits: limits(args)?, password: password(args)?, trust: trust::read(args)? })
    }
}

/// Reads files of a command line again and again.
#[derive(Debug)]
pub struct Reader {
    args: ServeArgs,
    /// One for each read that has not ended.
    places: Arc<Semaphore>,
}

impl Reader {
    pub fn new(args: &ServeArgs) -> Self {
        Self { args: args.clone(), places: Arc::new(Semaphore::new(MAX_READS)) }
    }

    /// Whether the command line names a file that is read again.
    pub const fn has_any(&self) -> bool {
        // A cluster has secrets or certificates.
        let ServeArgs { config, resp_password_file, cluster, .. } = &self.args;
        config.is_some() || resp_password_file.is_some() || cluster.is_some()
    }

    /// Reads files on a thread of its own, which is not waited for when the node stops: one may be
    /// a pipe.
    ///
    /// # Errors
    /// One line, also where there is no thread.
    pub async fn read<T: Send + 'static>(
        &self,
        files: fn(&ServeArgs) -> Result<T, String>,
    ) -> Result<T, String> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| format!("no thread: {MAX_READS} wait for a file already"))?;
        let args = self.args.clone();
        threads::apart(move || {
            let read = files(&args);
            drop(place);
            read
        })
        .await?
    }
}

/// The password of Redis clients, if there is one.
pub fn password(args: &ServeArgs) -> Result<Option<Password>, String> {
    let Some(path) = &args.resp_password_file else { return Ok(None) };
    let read = Password::read(path).map_err(|error| format!("--resp-password-file {error}"))?;
    let access = trust::check_access(path);
    access.map_err(|error| format!("--resp-password-file {}: {error}", path.display()))?;
    if read.is_weak() {
        let path = path.display();
        tracing::warn!("{path}: this password is soon guessed; 16 random letters are not");
    }
    Ok(Some(read))
}

/// The limits of the configuration, or the one that is built in.
pub fn limits(args: &ServeArgs) -> Result<Vec<LimitConfig>, String> {
    match &args.config {
        Some(path) => file::read(path).map_err(|error| format!("--config {error}")),
        None => Ok(vec![LimitConfig::built_in()]),
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use clap::Parser as _;

    use super::*;
    use crate::config::cli::Cli;

    #[tokio::test]
    async fn files_that_do_not_come_take_a_bounded_number_of_threads() {
        let reader = Reader::new(&Cli::parse_from(["tidegate"]).serve);
        let endless = |_: &ServeArgs| -> Result<(), String> {
            loop {
                std::thread::park();
            }
        };
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..MAX_READS {
            // As of one that the next SIGHUP gives up.
            assert!(pin!(reader.read(endless)).poll(&mut context).is_pending());
        }
        let refused = Err("no thread: 64 wait for a file already".to_owned());
        assert_eq!(pin!(reader.read(endless)).poll(&mut context), Poll::Ready(refused));
        let other = Reader::new(&reader.args);
        assert_eq!(other.read(|_| Ok(7)).await, Ok(7));
    }
}
