//! The two system calls without a safe wrapper.
#![cfg_attr(not(target_os = "linux"), allow(unused_variables))]

use std::fs::File;
use std::io;

/// Moves the calling thread, and with it the processes and threads that it starts, into a new
/// network namespace, which ends with the last of them.
///
/// # Errors
/// Without the privilege, or on another system than Linux.
#[cfg(target_os = "linux")]
pub fn enter_new_network() -> io::Result<()> {
    use rustix::thread::{UnshareFlags, unshare_unsafe};

    // SAFETY: only the network is no longer shared; file descriptors, which other threads might
    // miss, still are.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Creates a TUN device in the network namespace of the calling thread. Reads from the file, which
/// never wait, are the IP packets that are sent there; writes arrive there. It ends with the file.
///
/// # Errors
/// Without `/dev/net/tun` or the privilege, or on another system than Linux.
#[cfg(target_os = "linux")]
pub fn tun(name: &str) -> io::Result<File> {
    use rustix::ioctl::{Setter, ioctl, opcode};

    /// `struct ifreq`: a name that ends with 0, and a union of 24 bytes.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    /// `IFF_TUN | IFF_NO_PI`: packets begin with their IP header.
    const FLAGS: u16 = 0x1001;
    const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);

    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    let mut request = Request { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    if name.len() >= request.name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads a `struct ifreq`, which `Request` is laid out as, and keeps no
    // reference to it.
    unsafe { ioctl(&file, Setter::<TUNSETIFF, Request>::new(request)) }?;
    rustix::io::ioctl_fionbio(&file, true)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
pub fn enter_new_network() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(target_os = "linux"))]
pub fn tun(name: &str) -> io::Result<File> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
