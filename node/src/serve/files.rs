//! The files that the command line names.

use tidegate_cluster::Trust;

use crate::config::cli::ServeArgs;
use crate::config::file::{self, LimitConfig};
use crate::config::password::Password;
use crate::config::trust;

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

/// Reads files on a thread of its own, which is not waited for when the node stops: one may be a
/// pipe.
pub async fn read<T: Send + 'static>(
    args: &ServeArgs,
    files: fn(&ServeArgs) -> Result<T, String>,
) -> Result<T, String> {
    let args = args.clone();
    let read = tokio::task::spawn_blocking(move || files(&args)).await;
    read.unwrap_or_else(|error| Err(format!("files cannot be read: {error}")))
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
