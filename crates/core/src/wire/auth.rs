//! Seals and opens whole datagrams: tenant TLV, auth TLV, PDU.
//!
//! Called by the module for each admission and report and by the development server for each answer. Sealing
//! writes the PDU behind the place of its tag and encrypts it there; opening decrypts in the receive buffer. It
//! never draws nonces itself: the caller gives a fresh one for each message.

use super::{
    AES_LEN, AES_TYPE, COOKIE_LEN, COOKIE_TYPE, DecodeError, EncodeError, GuardAnswer, MAX_DATAGRAM,
    MAX_LABEL, NONCE_LEN, Observation, Pdu, RateRequest, ResourceAnswer, TLV_HEADER_LEN, Tenant, encode,
    head_len, rate_pdu_len, report_pdu_len, view,
};
use crate::key::{ApiKey, KeyKind, Secret};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use std::fmt;
use subtle::ConstantTimeEq;

const TAG_LEN: usize = 16;

/// Seals and opens datagrams of one key: the expanded AES key or the cookie. `Debug` shows the kind only.
///
/// The cookie is wiped with its key. The cipher keeps its expanded AES key in one heap place of its own, which it
/// does not wipe: make one `Auth` a process and keep it.
pub struct Auth {
    scheme: Scheme,
}

enum Scheme {
    Aes(Box<LessSafeKey>),
    /// Shared with the key: the cookie is in no second place.
    Cookie(Secret),
}

impl Auth {
    /// Prepares the key's cipher.
    pub fn new(key: &ApiKey) -> Auth {
        let secret = key.secret();
        let scheme = match key.kind() {
            KeyKind::Aes => {
                let key = UnboundKey::new(&AES_256_GCM, secret.as_slice());
                Scheme::Aes(Box::new(LessSafeKey::new(key.expect("AES-256 keys have the secret's 32 bytes"))))
            }
            KeyKind::Cookie => Scheme::Cookie(secret.clone()),
        };
        Auth { scheme }
    }

    /// The kind of the key this was made of.
    pub fn kind(&self) -> KeyKind {
        match self.scheme {
            Scheme::Aes(_) => KeyKind::Aes,
            Scheme::Cookie(_) => KeyKind::Cookie,
        }
    }

    /// Writes a whole sealed rate request into `out` (cleared first, keeps its capacity).
    ///
    /// # Errors
    /// `EncodeError`; `out` is then empty.
    pub fn seal_rate_request(
        &self,
        out: &mut Vec<u8>,
        tenant: &Tenant,
        nonce: &[u8; 12],
        request: &RateRequest<'_>,
    ) -> Result<(), EncodeError> {
        let label_len = request.label.map_or(0, <[u8]>::len);
        if label_len > MAX_LABEL {
            out.clear();
            return Err(EncodeError::LabelTooLong(label_len));
        }
        let pdu_len = rate_pdu_len(request.guards.len(), request.resources.len(), label_len);
        self.seal(out, tenant, nonce, pdu_len, |out| encode::rate_request(out, request))
    }

    /// Writes a whole sealed latency report into `out` (cleared first).
    ///
    /// # Errors
    /// `EncodeError`; `out` is then empty.
    pub fn seal_report(
        &self,
        out: &mut Vec<u8>,
        tenant: &Tenant,
        nonce: &[u8; 12],
        observations: &[Observation],
    ) -> Result<(), EncodeError> {
        let pdu_len = report_pdu_len(observations.len());
        self.seal(out, tenant, nonce, pdu_len, |out| encode::report(out, observations))
    }

    /// Writes a whole sealed rate response into `out` (cleared first). For servers.
    ///
    /// # Errors
    /// `EncodeError`; `out` is then empty.
    pub fn seal_rate_response(
        &self,
        out: &mut Vec<u8>,
        tenant: &Tenant,
        nonce: &[u8; 12],
        guards: &[GuardAnswer],
        resources: &[ResourceAnswer],
    ) -> Result<(), EncodeError> {
        let pdu_len = rate_pdu_len(guards.len(), resources.len(), 0);
        self.seal(out, tenant, nonce, pdu_len, |out| encode::rate_response(out, guards, resources))
    }

    /// The AES nonce of a datagram, unauthenticated, for observers; `None` under a cookie and where there is none.
    pub fn nonce(&self, datagram: &[u8]) -> Option<[u8; 12]> {
        let (_, tenant_len) = view::tenant(datagram).ok()?;
        let (tlv_type, _) = view::type_and_size(&datagram[tenant_len..]).ok()?;
        let nonce = datagram[tenant_len..].get(TLV_HEADER_LEN..)?.first_chunk()?;
        (tlv_type == AES_TYPE && self.kind() == KeyKind::Aes).then_some(*nonce)
    }

    /// Authenticates a datagram and decrypts it in place; the PDU starts at the returned message's slice.
    ///
    /// # Errors
    /// Every departure from the layout, the wrong auth kind, and a tag or cookie that does not match.
    // The client calls it in one place.
    #[inline(always)]
    pub fn open<'a>(&self, datagram: &'a mut [u8]) -> Result<(Tenant, Pdu<'a>), DecodeError> {
        let (tenant, tenant_len) = view::tenant(datagram)?;
        let (tlv_type, tlv_size) = view::type_and_size(&datagram[tenant_len..])?;
        let (own_type, own_len, other_type) = match self.scheme {
            Scheme::Aes(_) => (AES_TYPE, AES_LEN, COOKIE_TYPE),
            Scheme::Cookie(_) => (COOKIE_TYPE, COOKIE_LEN, AES_TYPE),
        };
        if tlv_type != own_type {
            let other = tlv_type == other_type;
            return Err(if other { DecodeError::AuthKind } else { DecodeError::Type(tlv_type) });
        }
        if usize::from(tlv_size) != own_len {
            return Err(DecodeError::Size(tlv_size));
        }
        let pdu = match &self.scheme {
            Scheme::Aes(cipher) => decrypt(cipher, datagram, tenant_len + TLV_HEADER_LEN)?,
            Scheme::Cookie(cookie) => check_cookie(cookie, &datagram[tenant_len + TLV_HEADER_LEN..])?,
        };
        Ok((tenant, view::pdu(pdu)?))
    }

    /// The frame all messages share: `write_pdu` appends exactly `pdu_len` bytes.
    fn seal(
        &self,
        out: &mut Vec<u8>,
        tenant: &Tenant,
        nonce: &[u8; NONCE_LEN],
        pdu_len: usize,
        write_pdu: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), EncodeError> {
        out.clear();
        let size = pdu_len.saturating_add(head_len(self.kind()));
        if size > MAX_DATAGRAM {
            return Err(EncodeError::TooLarge(size));
        }
        out.reserve(size);
        encode::tenant(out, tenant);
        match &self.scheme {
            Scheme::Aes(cipher) => {
                encode::tlv_header(out, AES_TYPE, AES_LEN);
                out.extend_from_slice(nonce);
                out.extend_from_slice(&[0; TAG_LEN]);
                write_pdu(out);
                encrypt(cipher, out, nonce)
            }
            Scheme::Cookie(cookie) => {
                encode::tlv_header(out, COOKIE_TYPE, COOKIE_LEN);
                out.extend_from_slice(cookie.as_slice());
                write_pdu(out);
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

/// Encrypts the PDU behind the head of `out` and puts the tag in its place. The authenticated data is everything
/// before the tag: in docs/protocol.md the nonce directly follows the type and size of the authentication field.
fn encrypt(cipher: &LessSafeKey, out: &mut Vec<u8>, nonce: &[u8; NONCE_LEN]) -> Result<(), EncodeError> {
    let (head, pdu) = out.split_at_mut(head_len(KeyKind::Aes));
    let (authenticated, tag_place) = head.split_at_mut(head.len() - TAG_LEN);
    let nonce = Nonce::assume_unique_for_key(*nonce);
    match cipher.seal_in_place_separate_tag(nonce, Aad::from(&*authenticated), pdu) {
        Ok(tag) => {
            tag_place.copy_from_slice(tag.as_ref());
            Ok(())
        }
        Err(_) => {
            out.clear();
            Err(EncodeError::Cipher)
        }
    }
}

/// Decrypts the PDU of a datagram whose nonce starts at `nonce_at`.
fn decrypt<'a>(
    cipher: &LessSafeKey,
    datagram: &'a mut [u8],
    nonce_at: usize,
) -> Result<&'a mut [u8], DecodeError> {
    let (authenticated, rest) =
        datagram.split_at_mut_checked(nonce_at + NONCE_LEN).ok_or(DecodeError::Truncated)?;
    let (tag, pdu) = rest.split_first_chunk_mut::<TAG_LEN>().ok_or(DecodeError::Truncated)?;
    let nonce = authenticated.last_chunk::<NONCE_LEN>().ok_or(DecodeError::Truncated)?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    cipher
        .open_in_place_separate_tag(nonce, Aad::from(&*authenticated), Tag::from(*tag), pdu, 0..)
        .map_err(|_| DecodeError::Authentication)
}

/// The PDU behind a cookie that matches. Compared in constant time: how far a guess is right must not show.
fn check_cookie<'a>(cookie: &Secret, body: &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let (claimed, pdu) = body.split_first_chunk::<32>().ok_or(DecodeError::Truncated)?;
    if bool::from(cookie.as_slice().ct_eq(claimed)) { Ok(pdu) } else { Err(DecodeError::Authentication) }
}
