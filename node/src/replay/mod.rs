//! `tidegate replay`: what a limit by client address would have done to an access log.
pub fn run(_: &crate::cli::ReplayArgs) -> Result<(), String> {
    Ok(())
}
