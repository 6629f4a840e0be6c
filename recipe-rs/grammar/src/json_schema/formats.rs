//! Which `format`s each dialect asserts, and the automata of their languages.
//!
//! Sources: RFC 3339 (date, time, date-time, duration), RFC 5321/5322/6531 (email, idn-email), RFC 1123 (hostname),
//! RFC 2673/4291 (ipv4, ipv6), RFC 3986/3987 (uri, iri and their references), RFC 6570 (uri-template), RFC 6901
//! (json-pointer) and its relative form, RFC 4122 (uuid). Languages are built once per process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::ast::Dialect;
use super::chardfa::{CharDfa, Edge};
use super::error::SchemaError;
use super::langs;

/// What a dialect makes of a format name.
pub(crate) enum Lookup {
    /// Asserted: the format's own name.
    Known(&'static str),
    /// An annotation in this dialect.
    Annotation,
    /// Would have to be asserted but is not decided here.
    Refused(&'static str),
}

const NOT_REGULAR: &str =
    "its language is not decided here; use format=\"annotate\" or on_unsupported=\"relax\"";

/// Looks a format name up. Names that the dialect does not define are annotations.
pub(crate) fn lookup(name: &str, dialect: Dialect) -> Lookup {
    use Dialect::{Draft201909, Draft4, Draft6, Draft7};
    let (known, since) = match name {
        "date-time" => ("date-time", Draft4),
        "email" => ("email", Draft4),
        "hostname" => ("hostname", Draft4),
        "idn-email" => ("idn-email", Draft4),
        "ipv4" => ("ipv4", Draft4),
        "ipv6" => ("ipv6", Draft4),
        "uri" => ("uri", Draft4),
        "json-pointer" => ("json-pointer", Draft6),
        "uri-reference" => ("uri-reference", Draft6),
        "uri-template" => ("uri-template", Draft6),
        "date" => ("date", Draft7),
        "time" => ("time", Draft7),
        "iri" => ("iri", Draft7),
        "iri-reference" => ("iri-reference", Draft7),
        "relative-json-pointer" => ("relative-json-pointer", Draft7),
        "duration" => ("duration", Draft201909),
        "uuid" => ("uuid", Draft201909),
        "regex" => return Lookup::Refused(NOT_REGULAR),
        "idn-hostname" if dialect >= Draft7 => return Lookup::Refused(NOT_REGULAR),
        _ => return Lookup::Annotation,
    };
    if dialect >= since {
        Lookup::Known(known)
    } else {
        Lookup::Annotation
    }
}

/// Characters a string of the format may have at most, beside its automaton.
pub(crate) fn max_length(name: &str) -> Option<u64> {
    (name == "hostname").then_some(253)
}

/// The strings of an asserted format (see [`max_length`]).
///
/// # Errors
/// Limits.
pub(crate) fn language(name: &'static str, pointer: &str) -> Result<Arc<CharDfa>, SchemaError> {
    static CACHE: OnceLock<Mutex<HashMap<&'static str, Arc<CharDfa>>>> = OnceLock::new();
    let mut cache = CACHE
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(d) = cache.get(name) {
        return Ok(Arc::clone(d));
    }
    let dfa = match name {
        "time" => time(None),
        "date-time" => time(Some(&langs::pattern(&whole(&date()), pointer)?)),
        _ => langs::pattern(&whole(&source(name)), pointer)?,
    };
    let dfa = Arc::new(dfa);
    cache.insert(name, Arc::clone(&dfa));
    Ok(dfa)
}

fn whole(body: &str) -> String {
    format!("^(?:{body})$")
}

/// Years 0001 to 9999 with the days that each month has.
fn date() -> String {
    let year = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
    let leap = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
    let long = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])";
    let short = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)";
    let february = "02-(?:0[1-9]|1[0-9]|2[0-8])";
    format!("{year}-(?:{long}|{short}|{february})|{leap}-02-29")
}

const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const UCS: &str = r"\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}\u{30000}-\u{3FFFD}\u{40000}-\u{4FFFD}\u{50000}-\u{5FFFD}\u{60000}-\u{6FFFD}\u{70000}-\u{7FFFD}\u{80000}-\u{8FFFD}\u{90000}-\u{9FFFD}\u{A0000}-\u{AFFFD}\u{B0000}-\u{BFFFD}\u{C0000}-\u{CFFFD}\u{D0000}-\u{DFFFD}\u{E1000}-\u{EFFFD}";
const PRIVATE: &str = r"\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}";
const PCT: &str = "%[0-9A-Fa-f]{2}";

fn ipv4() -> String {
    format!(r"{OCTET}(?:\.{OCTET}){{3}}")
}

fn ipv6() -> String {
    let h = "[0-9A-Fa-f]{1,4}";
    let tail = format!("(?:{h}:{h}|{})", ipv4());
    let mut out = vec![
        format!("(?:{h}:){{6}}{tail}"),
        format!("::(?:{h}:){{5}}{tail}"),
    ];
    for before in 1..=5usize {
        let left = format!("(?:(?:{h}:){{0,{}}}{h})?", before - 1);
        out.push(match 5 - before {
            0 => format!("{left}::{tail}"),
            n => format!("{left}::(?:{h}:){{{n}}}{tail}"),
        });
    }
    out.push(format!("(?:(?:{h}:){{0,5}}{h})?::{h}"));
    out.push(format!("(?:(?:{h}:){{0,6}}{h})?::"));
    out.join("|")
}

/// URI or IRI syntax; `extra` are the characters beyond ASCII allowed everywhere, `query` those of queries.
fn uri(extra: &str, query: &str, reference: bool) -> String {
    let unreserved = format!("A-Za-z0-9._~{extra}\\-");
    let sub = "!$&'()*+,;=";
    let pchar = format!("(?:[{unreserved}{sub}:@]|{PCT})");
    let segment = format!("{pchar}*");
    let abempty = format!("(?:/{segment})*");
    let absolute = format!("/(?:{pchar}+{abempty})?");
    let rootless = format!("{pchar}+{abempty}");
    let noscheme = format!("(?:[{unreserved}{sub}@]|{PCT})+{abempty}");
    let future = format!("[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~\\-{sub}:]+");
    let host = format!(
        "(?:\\[(?:{}|{future})\\]|(?:[{unreserved}{sub}]|{PCT})*)",
        ipv6()
    );
    let authority = format!("(?:(?:[{unreserved}{sub}:]|{PCT})*@)?{host}(?::[0-9]*)?");
    let rest = format!(
        "(?:\\?(?:[{unreserved}{sub}:@/?{query}]|{PCT})*)?(?:#(?:[{unreserved}{sub}:@/?]|{PCT})*)?"
    );
    let full = format!(
        "[A-Za-z][A-Za-z0-9+.\\-]*:(?://{authority}{abempty}|{absolute}|{rootless}|){rest}"
    );
    if reference {
        format!("{full}|(?://{authority}{abempty}|{absolute}|{noscheme}|){rest}")
    } else {
        full
    }
}

fn source(name: &str) -> String {
    let label = "[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?";
    match name {
        "date" => date(),
        "duration" => {
            let second = "[0-9]+S";
            let minute = format!("[0-9]+M(?:{second})?");
            let hour = format!("[0-9]+H(?:{minute})?");
            let time = format!("T(?:{hour}|{minute}|{second})");
            let month = "[0-9]+M(?:[0-9]+D)?";
            let year = format!("[0-9]+Y(?:{month})?");
            format!("P(?:(?:[0-9]+D|{month}|{year})(?:{time})?|{time}|[0-9]+W)")
        }
        "email" => {
            let atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+";
            let quoted = r#""(?:[ !#-\[\]-~]|\\[ -~])*""#;
            let literal = format!("\\[(?:{}|IPv6:(?:{}))\\]", ipv4(), ipv6());
            format!("(?:{atom}(?:\\.{atom})*|{quoted})@(?:{label}(?:\\.{label})*|{literal})")
        }
        "idn-email" => {
            let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u{80}-\u{10FFFF}]+";
            let quoted = r#""(?:[ !#-\[\]-~\u{80}-\u{10FFFF}]|\\[ -~])*""#;
            let literal = format!("\\[(?:{}|IPv6:(?:{}))\\]", ipv4(), ipv6());
            let label = r"[A-Za-z0-9\u{80}-\u{10FFFF}](?:[A-Za-z0-9\-\u{80}-\u{10FFFF}]*[A-Za-z0-9\u{80}-\u{10FFFF}])?";
            format!("(?:{atom}(?:\\.{atom})*|{quoted})@(?:{label}(?:\\.{label})*|{literal})")
        }
        "hostname" => {
            // Labels with two hyphens in the third and fourth place are reserved (RFC 5891); the internationalised
            // ones among them ("xn--") would have to be decoded to be judged, and are not written.
            let c = "[A-Za-z0-9]";
            let h = "[A-Za-z0-9\\-]";
            let short = format!("{c}(?:{c}|{h}{c})?");
            let third_not = format!("{c}{h}{c}(?:{h}{{0,59}}{c})?");
            let fourth_not = format!("{c}{h}-{c}(?:{h}{{0,58}}{c})?");
            let label = format!("(?:{short}|{third_not}|{fourth_not})");
            format!("{label}(?:\\.{label})*")
        }
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uri" => uri("", "", false),
        "uri-reference" => uri("", "", true),
        "iri" => uri(UCS, PRIVATE, false),
        "iri-reference" => uri(UCS, PRIVATE, true),
        "uri-template" => {
            let literal = format!(r"(?:[!#$&'(-;=?-\[\]_a-z~{UCS}{PRIVATE}]|{PCT})");
            let varchar = format!("(?:[A-Za-z0-9_]|{PCT})");
            let name = format!("{varchar}(?:\\.?{varchar})*");
            let variable = format!("{name}(?::[1-9][0-9]{{0,3}}|\\*)?");
            format!("(?:{literal}|\\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\\}})*")
        }
        "json-pointer" => "(?:/(?:[^~/]|~[01])*)*".into(),
        "relative-json-pointer" => "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)".into(),
        _ => "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}".into(),
    }
}

/// RFC 3339 times, after a date and `T` if one is given. A leap second is one only at 23:59:60 UTC, so after `:60` the
/// offset is fixed by hour and minute: each pair has states of its own.
fn time(date: Option<&CharDfa>) -> CharDfa {
    let mut b = Builder::default();
    // The date's states come first; its accepting ones go on with T.
    let begin = date.map_or(0, |d| {
        for q in 0..d.len() as u32 {
            b.edges.push(d.edges(q).to_vec());
            b.accept.push(false);
        }
        d.len() as u32
    });
    let start = b.state();
    debug_assert_eq!(start, begin);
    if let Some(d) = date {
        for q in (0..d.len() as u32).filter(|&q| d.accepts(q)) {
            b.edge(q, 'T', 'T', start);
            b.edge(q, 't', 't', start);
        }
    }
    let end = b.state();
    b.accept[end as usize] = true;
    // Any offset.
    let offset = b.state();
    b.edge(offset, 'Z', 'Z', end);
    b.edge(offset, 'z', 'z', end);
    let hour = b.state();
    b.edge(offset, '+', '+', hour);
    b.edge(offset, '-', '-', hour);
    let (h01, h2, colon, minute, digit) = (b.state(), b.state(), b.state(), b.state(), b.state());
    b.edge(hour, '0', '1', h01);
    b.edge(hour, '2', '2', h2);
    b.edge(h01, '0', '9', colon);
    b.edge(h2, '0', '3', colon);
    b.edge(colon, ':', ':', minute);
    b.edge(minute, '0', '5', digit);
    b.edge(digit, '0', '9', end);
    // Ordinary seconds, then a fraction or the offset.
    let (second, point, fraction) = (b.state(), b.state(), b.state());
    let seconds = b.state();
    b.edge(second, '0', '9', seconds);
    for q in [seconds, fraction] {
        let copy = b.edges[offset as usize].clone();
        b.edges[q as usize].extend(copy);
    }
    b.edge(seconds, '.', '.', point);
    b.edge(point, '0', '9', fraction);
    b.edge(fraction, '0', '9', fraction);
    // Fixed offsets "hh:mm", sharing their ends.
    let mut tails: HashMap<String, u32> = HashMap::from([(String::new(), end)]);
    let mut tens = [0u32; 3];
    for (i, t) in tens.iter_mut().enumerate() {
        *t = b.state();
        let c = char::from(b'0' + i as u8);
        b.edge(start, c, c, *t);
    }
    for h in 0..24u32 {
        let after_hour = b.state();
        let c = char::from(b'0' + (h % 10) as u8);
        b.edge(tens[h as usize / 10], c, c, after_hour);
        let before_minute = b.state();
        b.edge(after_hour, ':', ':', before_minute);
        for m10 in 0..6u32 {
            let ten = b.state();
            let c = char::from(b'0' + m10 as u8);
            b.edge(before_minute, c, c, ten);
            for m1 in 0..10u32 {
                let m = m10 * 10 + m1;
                let (after_minute, before_second, six, sixty, point, fraction) = (
                    b.state(),
                    b.state(),
                    b.state(),
                    b.state(),
                    b.state(),
                    b.state(),
                );
                let c = char::from(b'0' + m1 as u8);
                b.edge(ten, c, c, after_minute);
                b.edge(after_minute, ':', ':', before_second);
                b.edge(before_second, '0', '5', second);
                b.edge(before_second, '6', '6', six);
                b.edge(six, '0', '0', sixty);
                let ahead = (h * 60 + m + 1) % 1440;
                let behind = (1440 - ahead) % 1440;
                for q in [sixty, fraction] {
                    for (sign, by) in [('+', ahead), ('-', behind)] {
                        let tail = b.tail(&format!("{:02}:{:02}", by / 60, by % 60), &mut tails);
                        b.edge(q, sign, sign, tail);
                    }
                    if ahead == 0 {
                        b.edge(q, 'Z', 'Z', end);
                        b.edge(q, 'z', 'z', end);
                    }
                }
                b.edge(sixty, '.', '.', point);
                b.edge(point, '0', '9', fraction);
                b.edge(fraction, '0', '9', fraction);
            }
        }
    }
    for es in &mut b.edges {
        es.sort_unstable_by_key(|e| e.low);
    }
    CharDfa::new(b.edges, b.accept)
}

#[derive(Default)]
struct Builder {
    edges: Vec<Vec<Edge>>,
    accept: Vec<bool>,
}

impl Builder {
    fn state(&mut self) -> u32 {
        self.edges.push(Vec::new());
        self.accept.push(false);
        self.edges.len() as u32 - 1
    }

    fn edge(&mut self, from: u32, low: char, high: char, target: u32) {
        self.edges[from as usize].push(Edge {
            low: low as u32,
            high: high as u32,
            target,
        });
    }

    /// The state from which exactly `text` leads to the end.
    fn tail(&mut self, text: &str, known: &mut HashMap<String, u32>) -> u32 {
        if let Some(&q) = known.get(text) {
            return q;
        }
        let mut chars = text.chars();
        let first = chars.next().unwrap_or('0');
        let rest = self.tail(chars.as_str(), known);
        let q = self.state();
        self.edge(q, first, first, rest);
        known.insert(text.to_owned(), q);
        q
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages() {
        for (name, yes, no) in [
            (
                "date",
                vec!["2024-02-29", "0400-02-29", "2000-02-29", "1999-12-31"],
                vec![
                    "2023-02-29",
                    "0100-02-29",
                    "2024-04-31",
                    "0000-01-01",
                    "2024-1-1",
                ],
            ),
            (
                "time",
                vec![
                    "23:59:60Z",
                    "01:29:60+01:30",
                    "15:59:60-08:00",
                    "00:29:60-23:30",
                    "08:30:06.28z",
                ],
                vec![
                    "22:59:60Z",
                    "23:59:60+00:30",
                    "24:00:00Z",
                    "12:00:00",
                    "01:02:03+24:00",
                ],
            ),
            (
                "date-time",
                vec!["1998-12-31T15:59:60.123-08:00", "1963-06-19t08:30:06Z"],
                vec![
                    "1998-12-31T23:58:60Z",
                    "2016-12-31T24:59:60+01:00",
                    "1963-06-19 08:30:06Z",
                ],
            ),
            (
                "duration",
                vec!["P4DT12H30M5S", "P2W", "PT36H", "P1Y2M3D"],
                vec!["P", "PT", "P1Y2D", "PT1H2S", "P1Y2W"],
            ),
            (
                "email",
                vec![
                    "joe.bloggs@example.com",
                    "\"joe bloggs\"@example.com",
                    "a@[127.0.0.1]",
                    "a@[IPv6:::1]",
                ],
                vec!["2962", ".t@example.com", "t..t@example.com", "@x", "x@"],
            ),
            (
                "hostname",
                vec!["www.example.com", "a--b.com", "1host", "a", "ab"],
                vec!["", "-a", "a-", "a_b", "example.", "xn--X", "a..b"],
            ),
            (
                "ipv6",
                vec![
                    "::1",
                    "::",
                    "1:2:3:4:5:6:7:8",
                    "1::d6:192.168.0.1",
                    "d6::",
                    "1:2:3:4:5:6:7::",
                ],
                vec![
                    "12345::",
                    "1::d6::42",
                    "1:2:3:4:5:6:7",
                    "1:2:3:4:5:::8",
                    "1:2:3:4:5:6:7:8::",
                ],
            ),
            (
                "uri",
                vec![
                    "http://foo.bar/?baz=qux#quux",
                    "mailto:a@b",
                    "http://[::1]/",
                    "urn:a:b",
                ],
                vec![
                    "//foo.bar/",
                    "abc",
                    "http://a b",
                    "http://x/%6G",
                    "http://x:abc/",
                ],
            ),
            (
                "uri-reference",
                vec!["", "#a", "//", "./this:that", "?q=1"],
                vec!["\\\\W", "1:b", "/%zz", "//a@b@c/"],
            ),
            (
                "uri-template",
                vec!["x/{term:1}/{+var}", "", "{v:1000}"],
                vec!["{", "{}", "{a,,b}", "{v:0}", "a b"],
            ),
            (
                "json-pointer",
                vec!["", "/foo/bar~0", "/ "],
                vec!["a", "/~2", "/foo~"],
            ),
            (
                "relative-json-pointer",
                vec!["1", "0#", "2/0/baz"],
                vec!["01", "/a", "-1/a"],
            ),
            (
                "uuid",
                vec!["2eb8aa08-AA98-11ea-B4Aa-73B441D16380"],
                vec!["2eb8aa08aa9811eab4aa73b441d16380"],
            ),
        ] {
            let d = language(name, "#").unwrap_or_else(|e| panic!("{name}: {e}"));
            for t in yes {
                assert!(d.contains(t), "{name} {t}");
            }
            for t in no {
                assert!(!d.contains(t), "{name} {t}");
            }
        }
    }
}
