//! TLS: whom to trust, who we are, and what a failed handshake means to a person who must mend it.

use super::{dsn::TlsFiles, fault::Reason};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{cell::RefCell, collections::HashMap, io, path::Path, sync::Arc};

thread_local! {
    /// Reading the system's certificates takes milliseconds: it is done once per set of files, and again
    /// after a failed handshake, since files are renewed.
    static CONFIGS: RefCell<HashMap<TlsFiles, Arc<ClientConfig>>> = RefCell::default();
}

/// Begins a session with `host`.
pub fn connection(files: &TlsFiles, host: &str) -> Result<ClientConnection, Reason> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(format!("{host:?}: {error}")))?;
    ClientConnection::new(config(files)?, name).map_err(|error| failed(error.to_string()))
}

/// Reads the files anew the next time.
pub fn forget(files: &TlsFiles) {
    CONFIGS.with_borrow_mut(|configs| configs.remove(files));
}

fn config(files: &TlsFiles) -> Result<Arc<ClientConfig>, Reason> {
    if let Some(config) = CONFIGS.with_borrow(|configs| configs.get(files).cloned()) {
        return Ok(config);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots(files)?);
    let config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("key", key, &error))?;
            builder.with_client_auth_cert(certificates("cert", certificate)?, key).map_err(|error| {
                failed(format!("the client certificate of ?cert= and ?key= cannot be used: {error}"))
            })?
        }
    };
    let config = Arc::new(config);
    CONFIGS.with_borrow_mut(|configs| configs.insert(files.clone(), Arc::clone(&config)));
    Ok(config)
}

fn roots(files: &TlsFiles) -> Result<RootCertStore, Reason> {
    let mut roots = RootCertStore::empty();
    let found = match &files.ca {
        Some(path) => certificates("ca", path)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let (added, _) = roots.add_parsable_certificates(found);
    match added {
        0 if files.ca.is_some() => Err(failed("the file of ?ca= holds no certificate that can be used".into())),
        0 => Err(failed("this system has no CA certificates: name the server's CA with ?ca=/path/ca.pem".into())),
        _ => Ok(roots),
    }
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Reason> {
    CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| unreadable(option, path, &error))
}

fn unreadable(option: &str, path: &Path, error: &dyn std::error::Error) -> Reason {
    failed(format!("the file of ?{option}=, {}, cannot be read: {error}", path.display()))
}

fn failed(what: String) -> Reason {
    Reason::Tls(what)
}

/// What an error of a TLS stream says to the one who must mend it.
pub fn reason(error: io::Error) -> Reason {
    let Some(cause) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Reason::Closed } else { Reason::Io(error) };
    };
    let advice = match cause {
        Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "no trusted CA has signed the server's certificate: name its CA with ?ca=/path/ca.pem"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired: renew it"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet: check both clocks"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate is for another host name: use the name that it was made for"
            }
            CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                "the server's certificate is a CA's own: give the server one that the CA has signed, and name the CA \
                 with ?ca=/path/ca.pem"
            }
            _ => "the server's certificate cannot be trusted",
        },
        Error::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            "the server wants a client certificate: name it with ?cert=/path/cert.pem&key=/path/key.pem"
        }
        Error::AlertReceived(_) => "the server refused our client certificate or our offer",
        Error::InvalidMessage(_) => "the server does not speak TLS on this port: use redis:// or its TLS port",
        _ => "the handshake failed",
    };
    failed(format!("{advice} ({cause})"))
}
