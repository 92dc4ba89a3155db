//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;
use std::io;
use std::ops::Range;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode,
};
use serde::Serialize;

/// One thing that is wrong: a sentence, the places that it is about, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    message: String,
    help: Option<String>,
    labels: Vec<(Range<usize>, String)>,
}

impl Problem {
    /// A problem with nothing to point at yet.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, labels: Vec::new() }
    }

    /// Points at `span` (octets of the text), with a short remark. The first place is the problem's own.
    pub(super) fn at(mut self, span: Range<usize>, remark: impl Into<String>) -> Self {
        self.labels.push((span, remark.into()));
        self
    }

    /// Says what to do.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The problem in a sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn what_to_do(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl From<&toml::de::Error> for Problem {
    fn from(error: &toml::de::Error) -> Self {
        // serde ends its sentence with what it would have taken; that is what to do.
        let (message, expected) = match error.message().split_once(", expected ") {
            Some((message, expected)) => (message, Some(expected)),
            None => (error.message(), None),
        };
        let message = message.replace("unknown variant", "unknown value");
        let help = match (expected, message.strip_prefix("missing field ")) {
            (Some(expected), _) => Some(format!("expected {expected}")),
            (None, Some("`engine`")) => {
                Some("add an [engine] table with at least a `name` and `lcores`".to_owned())
            }
            (None, Some(field)) => Some(format!("add {field} to this table")),
            (None, None) if message.contains("IPv4 address") => {
                Some("write four numbers up to 255, for example \"239.1.1.1\"".to_owned())
            }
            (None, None) => None,
        };
        let mut problem = Self::new(message).at(error.span().unwrap_or(0..0), "");
        problem.help = help;
        problem
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().enumerate().map(|(index, (span, remark))| {
            let remark = (!remark.is_empty()).then(|| remark.clone());
            match index {
                0 => LabeledSpan::new_primary_with_span(remark, span.clone()),
                _ => LabeledSpan::new_with_span(remark, span.clone()),
            }
        })))
    }
}

/// A problem and its place, for programs: what `heddle check --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file as it was named.
    pub file: String,
    /// The line, from 1; absent when the problem has no place.
    pub line: Option<usize>,
    /// The column in characters, from 1; absent when the problem has no place.
    pub column: Option<usize>,
    /// The problem in a sentence.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Why there is no configuration: all problems of one file.
#[derive(Debug)]
pub struct ConfigError {
    headline: String,
    help: Option<String>,
    source: NamedSource<String>,
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn unreadable(name: &str, why: io::Error) -> Self {
        let help = match why.kind() {
            io::ErrorKind::NotFound => "give the path of a heddle.toml with -c",
            io::ErrorKind::PermissionDenied => {
                "the file must be readable by the user who runs this"
            }
            _ => "give the path of a heddle.toml: a text file",
        };
        Self {
            headline: format!("cannot read {name}: {why}"),
            help: Some(help.to_owned()),
            source: NamedSource::new(name, String::new()),
            problems: Vec::new(),
        }
    }

    pub(super) fn invalid(text: &str, name: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.labels.first().map(|(span, _)| span.start));
        let headline = match problems.len() {
            1 => format!("1 problem in {name}"),
            n => format!("{n} problems in {name}"),
        };
        Self { headline, help: None, source: NamedSource::new(name, text.to_owned()), problems }
    }

    /// Each problem, in the order of the text; none when the file could not be read.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Each problem with its line and column; the one reason when the file could not be read.
    pub fn places(&self) -> Vec<Place> {
        let file = self.source.name().to_owned();
        if self.problems.is_empty() {
            return vec![Place {
                file,
                line: None,
                column: None,
                message: self.headline.clone(),
                help: self.help.clone(),
            }];
        }
        let text = self.source.inner();
        self.problems
            .iter()
            .map(|problem| {
                let place =
                    problem.labels.first().map(|(span, _)| line_and_column(text, span.start));
                Place {
                    file: file.clone(),
                    line: place.map(|(line, _)| line),
                    column: place.map(|(_, column)| column),
                    message: problem.message.clone(),
                    help: problem.help.clone(),
                }
            })
            .collect()
    }

    /// The whole report, for people: each problem with `file:line:column`, the line, a caret, and what to do.
    pub fn report(&self, color: bool) -> String {
        let theme = if color {
            GraphicalTheme::unicode()
        } else {
            let mut theme = GraphicalTheme::none();
            theme.characters.underbar = theme.characters.underline;
            theme
        };
        let handler = GraphicalReportHandler::new_themed(theme).with_links(false).with_width(100);
        let mut report = String::new();
        match handler.render_report(&mut report, self) {
            Ok(()) => report,
            Err(fmt::Error) => self.headline.clone(),
        }
    }
}

/// Line and column, both from 1, of the octet at `offset`; the end of the text for what lies behind it.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[start..].chars().count() + 1;
    (line, column)
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline)
    }
}

impl std::error::Error for ConfigError {}

impl Diagnostic for ConfigError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        (!self.problems.is_empty()).then(|| {
            Box::new(self.problems.iter().map(|problem| problem as &dyn Diagnostic))
                as Box<dyn Iterator<Item = &dyn Diagnostic>>
        })
    }
}
