//! Recover mode over whole texts and over every split of them.

use std::borrow::Cow;

use super::*;
use crate::inference::ThinkingInitialStage;

/// The message that the core events add up to.
#[derive(Clone, Debug, Default, PartialEq)]
struct Message {
    reasoning: String,
    content: String,
    calls: Vec<(String, String)>,
    order: String,
}

impl CoreSink for Message {
    fn reasoning(&mut self, text: String, _: Logprobs) {
        self.reasoning.push_str(&text);
    }

    fn content(&mut self, text: Cow<'static, str>, _: Logprobs) {
        self.content.push_str(&text);
    }

    fn tool_start(&mut self, index: usize, name: String) {
        assert_eq!(index, self.calls.len());
        self.order
            .push_str(&format!("{}/{};", self.reasoning.len(), self.content.len()));
        self.calls.push((name, String::new()));
    }

    fn tool_args(&mut self, index: usize, fragment: Cow<'static, str>) {
        self.calls[index].1.push_str(&fragment);
    }
}

fn parse(pieces: &[&str], thinking: bool, end: End) -> (Message, Vec<CallReport>) {
    let options = ParsingOptions {
        thinking_initial_stage: thinking.then_some(ThinkingInitialStage::ReasoningStart),
        recover: true,
        ..ParsingOptions::default()
    };
    let mut parser = Recoverer::new(&options, None);
    let mut message = Message::default();
    for piece in pieces {
        assert_eq!(
            parser.push((*piece).to_owned(), Class::Text, None, &mut message),
            None
        );
    }
    assert_eq!(parser.finish(end, &mut message), None);
    (message, parser.reports().to_vec())
}

/// Texts with every defect; `D` stands for the DSML token.
const TEXTS: &[&str] = &[
    "Hi\n\n<Dtool_calls>\n<Dinvoke name=\"f\">\n<Dparameter name=\"a\" string=\"true\">v\nw</Dparameter>\n</Dinvoke>\n</Dtool_calls>",
    "x<Dtoolcalls>\n<Dinvoke name=\"f\"><parameter name=\"on\">true</Dparameter></Dinvoke></Dtool_calls> after\n\nmore",
    "\n\n<D calls>\n<D invoke name=\"f\">\n<D parameter name=\"d n\" string=\"true\">A</D parameter>\n<D parameter name=\" string= x\" string=\"true\">1</D parameter>\n</D invoke>\n</D calls>",
    "<Dinvoke name=\"g\n<Dparameter name=\"a\"string=\"true\">v<Dparameter name='b' string='FALSE' >{'x': True,}</D></Dinvoke>tail",
    "<Dtool_calls>{\"name\":\"f\",\"arguments\":{\"a\":1}}</Dtool_calls>z<Dtool_calls>\n```json\n[{\"name\":\"g\",\"parameters\":{}}]\n```",
    "t</think>The <DSML> mark and <Dtool_calls> are text; so is <Dfoo> and <| DSML |x>\n\n\n",
    "t <Dinvoke name=\"f\"><Dparameter name=\"a\" string=\"true\">v</think>ans",
    "t<Dinvoke name=\"f\">j<Dparameter name=\"a\" string=\"false\">[1,</Dparameter>k</Dparameter></Dinvoke>l</Dtool_calls\nm",
    "<Dinvoke name=\"f\"><Dinvoke name=\"g\"></Dinvoke>\n\n<Dtool_calls>\n\n</Dtool_calls>\n<Dtool_calls><Dinvoke name=\"h\"></",
    "a <Dinvoke name=\"f\"><Dparameter name=\"a\" string=\"true\">x</｜DSM",
    "a<Dinvoke name=\"\">b</Dinvoke>c<Dinvoke>d<Dinvoke name=e",
];

#[test]
fn any_split_gives_the_same_message() {
    for text in TEXTS {
        let text = text
            .replace('D', "｜DSML｜")
            .replace("｜DSML｜SML", "DSML")
            .replace("｜DSM｜DSML｜L", "｜DSML");
        for thinking in [false, true] {
            for end in [End::Whole, End::Cut] {
                let whole = parse(&[&text], thinking, end);
                let chars: Vec<String> = text.chars().map(String::from).collect();
                let singles: Vec<&str> = chars.iter().map(String::as_str).collect();
                assert_eq!(parse(&singles, thinking, end), whole, "one by one: {text}");
                for (at, _) in text.char_indices() {
                    assert_eq!(
                        parse(&[&text[..at], &text[at..]], thinking, end),
                        whole,
                        "cut at {at}: {text}"
                    );
                }
            }
        }
    }
}

#[test]
fn much_of_anything_is_read_once() {
    let value = "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"a\" string=\"true\">";
    let call = format!("{value}v</｜DSML｜parameter></｜DSML｜invoke>");
    let units = [
        "a",
        "\n",
        "<",
        " ",
        "<｜DSML｜",
        "</｜DSML｜",
        "{",
        "\"",
        "<｜DSML｜parameter name=\"",
        &call,
    ];
    for unit in units {
        for prefix in ["", "<｜DSML｜tool_calls>", "<｜DSML｜invoke name=\"", value] {
            let text = format!("{prefix}{}", unit.repeat(200_000 / unit.len()));
            parse(&[&text], false, End::Whole);
        }
    }
}
