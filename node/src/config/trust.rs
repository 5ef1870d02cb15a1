//! The secrets, or the certificates, by which a node proves that it belongs to its cluster.

use std::fmt::Display;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tidegate_cluster::{CertificatePart, Certificates, MAX_SECRETS, Secret, Trust};

use crate::config::cli::ServeArgs;

/// The user who may access any file.
const ROOT: u32 = 0;

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
    let Some(file) = regular(path) else { return Ok(()) };
    let (mode, user) = (mode_of(&file), rustix::process::geteuid().as_raw());
    let advice = advice(file.uid(), user);
    if mode & 0o002 != 0 {
        return Err(format!("other users may write it (mode {mode:04o}); {advice}"));
    }
    if let Some(access) = access(mode) {
        let path = path.display();
        tracing::warn!("{path}: {access} (mode {mode:04o}); {advice}");
    }
    Ok(())
}

/// What the group of a file with this mode, and all others, may do with it, if anything.
fn access(mode: u32) -> Option<String> {
    let may = |who: &str, bits: u32| match bits & 0o6 {
        0 => None,
        0o4 => Some(format!("{who} may read it")),
        0o2 => Some(format!("{who} may write it")),
        _ => Some(format!("{who} may read and write it")),
    };
    let who = [may("its group", mode >> 3), may("others", mode)];
    who.into_iter().flatten().reduce(|group, others| format!("{group} and {others}"))
}

/// What leaves a file of `owner` to the node alone, which runs as `user`: with mode 600 it could
/// not read that of another user.
const fn advice(owner: u32, user: u32) -> &'static str {
    if owner == user || user == ROOT {
        "chmod 600"
    } else {
        "it belongs to another user: chown it to the node's, then chmod 600"
    }
}

/// Checks a file that is not secret, but says whom this node trusts.
///
/// # Errors
/// When every user may write it.
fn check_writers(path: &Path) -> Result<(), String> {
    match regular(path).as_ref().map(mode_of) {
        Some(mode) if mode & 0o002 != 0 => {
            Err(format!("other users may write it (mode {mode:04o}); chmod 644"))
        }
        _ => Ok(()),
    }
}

/// What the system knows of a file; `None` for a pipe, which belongs to no other user.
fn regular(path: &Path) -> Option<Metadata> {
    std::fs::metadata(path).ok().filter(Metadata::is_file)
}

/// Who may access it.
fn mode_of(file: &Metadata) -> u32 {
    file.permissions().mode() & 0o777
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_who_may_do_what() {
        for (mode, said) in [
            (0o600, None),
            (0o400, None),
            (0o640, Some("its group may read it")),
            (0o620, Some("its group may write it")),
            (0o660, Some("its group may read and write it")),
            (0o604, Some("others may read it")),
            (0o644, Some("its group may read it and others may read it")),
            (0o664, Some("its group may read and write it and others may read it")),
        ] {
            assert_eq!(access(mode).as_deref(), said, "{mode:o}");
        }
    }

    /// A node that is no user's but root's could not read the file of another with that mode.
    #[test]
    fn one_who_is_not_the_owner_has_to_become_it_first() {
        assert_eq!([advice(7, 7), advice(7, ROOT), advice(ROOT, ROOT)], ["chmod 600"; 3]);
        for owner in [ROOT, 8] {
            assert!(advice(owner, 7).starts_with("it belongs to another user: chown"));
        }
    }
}
