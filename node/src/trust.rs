//! The secrets, or the certificates, by which a node proves that it belongs to its cluster.

use std::path::Path;

use tidegate_cluster::{Certificates, MAX_SECRETS, Part, Secret, Trust};

use crate::cli::ServeArgs;

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
    let is_empty = |path: &Path| std::fs::metadata(path).is_ok_and(|file| file.len() == 0);
    let others = others.iter().filter(|path| !is_empty(path)).map(|path| secret(path));
    Ok(Some(Trust::secrets(own, others.collect::<Result<Vec<_>, _>>()?)))
}

fn secret(path: &Path) -> Result<Secret, String> {
    let secret = Secret::from_file(path);
    secret.map_err(|error| format!("--cluster-secret-file {}: {error}", path.display()))
}

fn certificates(ca: &Path, chain: &Path, key: &Path) -> Result<Trust, String> {
    Certificates::from_files(ca, chain, key).map(Trust::from).map_err(|error| {
        let (flag, path) = match error.part() {
            Part::Authorities => ("--cluster-ca", ca),
            Part::Chain => ("--cluster-cert", chain),
            _ => ("--cluster-key", key),
        };
        format!("{flag} {}: {error}", path.display())
    })
}
