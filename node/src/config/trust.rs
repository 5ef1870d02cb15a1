//! The secrets, or the certificates, by which a node proves that it belongs to its cluster.

use std::fmt::Display;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidegate_cluster::{CertificatePart, Certificates, MAX_SECRETS, Secret, Trust};

use crate::config::cli::ServeArgs;

/// Reads what the command line names; `None` where it names nothing.
///
/// # Errors
/// One line that names the flag and the file.
pub fn read(args: &ServeArgs) -> Result<Option<Trust>, String> {
    if let (Some(ca), Some(chain), Some(key)) =
        (&args.cluster_ca, &args.cluster_cert, &args.cluster_key)
    {
        return certificates(ca, chain, key).map(Some);
    }
    let Some((own, others)) = args.cluster_secret_file.split_first() else { return Ok(None) };
    if others.len() >= MAX_SECRETS {
        return Err(format!("--cluster-secret-file: at most {MAX_SECRETS} are accepted"));
    }
    let own = secret(own)?;
    // What is empty holds no secret yet, or no longer.
    let is_empty =
        |path: &Path| std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0);
    let others = others.iter().filter(|path| !is_empty(path)).map(|path| secret(path));
    Ok(Some(Trust::secrets(own, others.collect::<Result<Vec<_>, _>>()?)))
}

fn secret(path: &Path) -> Result<Secret, String> {
    let named = |error: &dyn Display| format!("--cluster-secret-file {}: {error}", path.display());
    let secret = Secret::from_file(path).map_err(|error| named(&error))?;
    check_access(path).map_err(|error| named(&error))?;
    Ok(secret)
}

/// Checks which other users may access a file that is secret: a warning where others may read it,
/// as where containers mount theirs.
///
/// # Errors
/// When every user may write it, and so choose what it is.
pub fn check_access(path: &Path) -> Result<(), String> {
    let Some(mode) = mode(path) else { return Ok(()) };
    if mode & 0o002 != 0 {
        return Err(format!("other users may write it (mode {mode:04o}); chmod 600"));
    }
    if mode & 0o066 != 0 {
        let path = path.display();
        tracing::warn!("{path}: others may read or write it (mode {mode:04o}); chmod 600");
    }
    Ok(())
}

/// Checks a file that is not secret, but says whom this node trusts.
///
/// # Errors
/// When every user may write it.
fn check_writers(path: &Path) -> Result<(), String> {
    match mode(path) {
        Some(mode) if mode & 0o002 != 0 => {
            Err(format!("other users may write it (mode {mode:04o}); chmod 644"))
        }
        _ => Ok(()),
    }
}

/// Who may access a file; `None` for a pipe, which belongs to no other user.
fn mode(path: &Path) -> Option<u32> {
    let file = std::fs::metadata(path).ok().filter(Metadata::is_file);
    file.map(|file| file.permissions().mode() & 0o777)
}

fn certificates(ca: &Path, chain: &Path, key: &Path) -> Result<Trust, String> {
    let read = Certificates::from_files(ca, chain, key).map_err(|error| {
        let (flag, path) = match error.part() {
            CertificatePart::Authorities => ("--cluster-ca", ca),
            CertificatePart::Chain => ("--cluster-cert", chain),
            _ => ("--cluster-key", key),
        };
        format!("{flag} {}: {error}", path.display())
    })?;
    check_writers(ca).map_err(|error| format!("--cluster-ca {}: {error}", ca.display()))?;
    check_writers(chain).map_err(|error| format!("--cluster-cert {}: {error}", chain.display()))?;
    check_access(key).map_err(|error| format!("--cluster-key {}: {error}", key.display()))?;
    Ok(Trust::from(read))
}
