//! Socket addresses between Rust's form and the kernel's.
//!
//! Called by the UDP socket, which sends to them, and by the loader, which reads those that nginx has parsed. It neither
//! opens nor resolves anything.

use ngx::ffi::sockaddr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A socket address in the kernel's form.
#[derive(Clone, Copy)]
pub struct RawAddress {
    storage: Storage,
    len: libc::socklen_t,
}

#[derive(Clone, Copy)]
#[repr(C)]
union Storage {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    /// Any address, as the kernel reads it.
    pub fn new(address: SocketAddr) -> RawAddress {
        match address {
            SocketAddr::V4(v4) => RawAddress {
                storage: Storage { v4: raw_v4(v4) },
                len: size_of::<libc::sockaddr_in>() as libc::socklen_t,
            },
            SocketAddr::V6(v6) => RawAddress {
                storage: Storage { v6: raw_v6(v6) },
                len: size_of::<libc::sockaddr_in6>() as libc::socklen_t,
            },
        }
    }

    /// What the kernel's functions want; valid as long as this stays where it is.
    pub fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    /// The bytes that the kernel reads.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: `new` has filled in `len` bytes, none of which are padding, and the result borrows from `self`.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len as usize) }
    }

    /// Its length, bytes.
    pub fn len(&self) -> libc::socklen_t {
        self.len
    }
}

impl PartialEq for RawAddress {
    fn eq(&self, other: &RawAddress) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

fn raw_v4(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn raw_v6(address: SocketAddrV6) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: address.port().to_be(),
        sin6_flowinfo: address.flowinfo(),
        sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
        sin6_scope_id: address.scope_id(),
    }
}

/// The address that nginx keeps at `address`; `None` for a null pointer and for any family but IPv4 and IPv6.
///
/// # Safety
/// `address` must be null or point to a whole socket address of its family.
pub unsafe fn socket_addr(address: *const sockaddr) -> Option<SocketAddr> {
    // SAFETY: by the caller's promise; the family says which structure it is.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}
