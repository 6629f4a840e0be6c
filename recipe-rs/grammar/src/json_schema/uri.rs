//! URI references as schemas use them: splitting, resolving against a base (RFC 3986, section 5.2), fragments.

/// The five parts of a URI reference.
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

/// Splits off the fragment: (URI without `#…`, fragment text if there is one).
pub(crate) fn split_fragment(uri: &str) -> (&str, Option<&str>) {
    match uri.split_once('#') {
        Some((a, b)) => (a, Some(b)),
        None => (uri, None),
    }
}

fn parts(uri: &str) -> Parts<'_> {
    let (rest, query) = match uri.split_once('?') {
        Some((a, b)) => (a, Some(b)),
        None => (uri, None),
    };
    let is_scheme = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((s, r)) if is_scheme(s) => (Some(s), r),
        _ => (None, rest),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(r) => {
            let end = r.find('/').unwrap_or(r.len());
            (Some(&r[..end]), &r[end..])
        }
        None => (None, rest),
    };
    Parts {
        scheme,
        authority,
        path,
        query,
    }
}

fn remove_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let absolute = path.starts_with('/');
    let segments: Vec<&str> = path.split('/').collect();
    for (i, s) in segments.iter().enumerate() {
        let last = i + 1 == segments.len();
        match *s {
            "." => {
                if last {
                    out.push("");
                }
            }
            ".." => {
                if out.len() > usize::from(absolute) {
                    out.pop();
                }
                if last {
                    out.push("");
                }
            }
            s => out.push(s),
        }
    }
    out.join("/")
}

/// Resolves a reference without fragment against a base without fragment.
pub(crate) fn resolve(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    let r = parts(reference);
    if r.scheme.is_some() {
        return reference.to_owned();
    }
    let b = parts(base);
    let (authority, path, query);
    if r.authority.is_some() {
        (authority, path, query) = (r.authority, remove_dots(r.path), r.query);
    } else if r.path.is_empty() {
        (authority, path, query) = (b.authority, b.path.to_owned(), r.query.or(b.query));
    } else {
        let merged = if r.path.starts_with('/') {
            r.path.to_owned()
        } else if b.authority.is_some() && b.path.is_empty() {
            format!("/{}", r.path)
        } else {
            let cut = b.path.rfind('/').map_or(0, |i| i + 1);
            format!("{}{}", &b.path[..cut], r.path)
        };
        (authority, path, query) = (b.authority, remove_dots(&merged), r.query);
    }
    let mut out = String::new();
    if let Some(s) = b.scheme {
        out.push_str(s);
        out.push(':');
    }
    if let Some(a) = authority {
        out.push_str("//");
        out.push_str(a);
    }
    out.push_str(&path);
    if let Some(q) = query {
        out.push('?');
        out.push_str(q);
    }
    out
}

/// Percent-decodes a fragment; bytes that are not UTF-8 afterwards make it `None`.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = (bytes[i] == b'%')
            .then(|| {
                text.get(i + 1..i + 3)
                    .and_then(|h| u8::from_str_radix(h, 16).ok())
            })
            .flatten();
        match hex {
            Some(b) => {
                out.push(b);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

/// One reference token of a JSON pointer, unescaped.
pub(crate) fn unescape_token(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// A key as a reference token of a JSON pointer in a URI fragment.
pub(crate) fn escape_token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_like_rfc_3986() {
        let base = "http://a/b/c/d;p?q";
        for (r, want) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("../g", "http://a/b/g"),
            ("../../../g", "http://a/g"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g/", "http://a/b/c/g/"),
            ("..", "http://a/b/"),
            ("urn:x:y", "urn:x:y"),
        ] {
            assert_eq!(resolve(base, r), want, "{r}");
        }
        assert_eq!(resolve("", "list"), "list");
        assert_eq!(
            resolve("http://localhost:1234", "item.json"),
            "http://localhost:1234/item.json"
        );
        assert_eq!(percent_decode("a~1b%20c~0d").as_deref(), Some("a~1b c~0d"));
    }
}
