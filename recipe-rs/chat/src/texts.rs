//! The fixed texts of prompts. Markup is written with placeholders that the renderer replaces:
//! `{D}` the DSML token, `{T}` and `{/T}` the think tags; all of them become special ranges.

/// Effort text of V4, effort `high` or unspecified.
pub(crate) const V4_EFFORT_HIGH: &str = "Reasoning Effort: Absolute maximum with no shortcuts permitted.
You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.
Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.

";

/// Effort text of V4, effort `max`.
pub(crate) const V4_EFFORT_MAX: &str = "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.
You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying cause rather than any surface symptom.
Do not stop reasoning until you have independently verified the solution from multiple angles and are certain that no assumption remains unchecked and no error remains undiscovered.

";

/// Effort text of V4.1 around the number.
pub(crate) const V41_EFFORT: [&str; 2] = [
    "Reasoning Effort: ",
    " (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
];

/// Introduces the tool lines of V4. V4.1 spells the three element names with a leading space.
pub(crate) const V4_TOOL_INSTRUCTIONS: &str = r#"## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<{D}tool_calls>" block like the following:

<{D}tool_calls>
<{D}invoke name="$TOOL_NAME">
<{D}parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</{D}parameter>
...
</{D}invoke>
<{D}invoke name="$TOOL_NAME2">
...
</{D}invoke>
</{D}tool_calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by {T}), you MUST output your complete reasoning inside {T}...{/T} BEFORE any tool calls or final response.

Otherwise, output directly after {/T} with tool calls or final response.

### Available Tool Schemas

"#;

/// Ends the tool section.
pub(crate) const TOOL_CLOSING: &str =
    "\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

/// Introduces tools that are revealed later (V4.1).
pub(crate) const TOOL_UPDATE: &str = "\n\n### Updated Tool Schemas\n\n";

/// `json_object` of V4.
pub(crate) const V4_JSON_OBJECT: &str =
    "\n\nYou are a helpful assistant designed to output JSON.\n## Response Format:\n\n\
                                         Reply with JSON object ONLY.";

/// Precedes the schema of a response format.
pub(crate) const RESPONSE_SCHEMA: &str =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

/// Stands for the schema of `json_object` (V4.1).
pub(crate) const V41_JSON_OBJECT: &str = "{\"type\": \"json_object\"}";

/// Replaces images where the model has no vision.
pub(crate) const UNSUPPORTED_IMAGE: &str = "[Unsupported Image]";

/// Replaces files in Responses.
pub(crate) const UNSUPPORTED_DOCUMENT: &str = "[Unsupported Document]";

/// Description of the `apply_patch` tool up to where V4.1 has one more line break.
pub(crate) const APPLY_PATCH_HEAD: &str = "Use the `apply_patch` tool to edit files.
Your patch language is a stripped‑down, file‑oriented diff format designed to be easy to parse and safe to apply. You can think of it as a high‑level envelope:
";

/// The rest of that description.
pub(crate) const APPLY_PATCH_TAIL: &str = r#"*** Begin Patch
[ one or more file sections ]
*** End Patch

Within that envelope, you get a sequence of file operations.
You MUST include a header to specify the action you are taking.
Each operation starts with one of three headers:

*** Add File: <path> - create a new file. Every following line is a + line (the initial contents).
*** Delete File: <path> - remove an existing file. Nothing follows.
*** Update File: <path> - patch an existing file in place (optionally with a rename).

May be immediately followed by *** Move to: <new path> if you want to rename the file.
Then one or more “hunks”, each introduced by @@ (optionally followed by a hunk header).
Within a hunk each line starts with:

For instructions on [context_before] and [context_after]:
- By default, show 3 lines of code immediately above and 3 lines immediately below each change. If a change is within 3 lines of a previous change, do NOT duplicate the first change’s [context_after] lines in the second change’s [context_before] lines.
- If 3 lines of context is insufficient to uniquely identify the snippet of code within the file, use the @@ operator to indicate the class or function to which the snippet belongs. For instance, we might have:
@@ class BaseClass
[3 lines of pre-context]
- [old_code]
+ [new_code]
[3 lines of post-context]

- If a code block is repeated so many times in a class or function such that even a single `@@` statement and 3 lines of context cannot uniquely identify the snippet of code, you can use multiple `@@` statements to jump to the right context. For instance:

@@ class BaseClass
@@ 	 def method():
[3 lines of pre-context]
- [old_code]
+ [new_code]
[3 lines of post-context]

The full grammar definition is below:
Patch := Begin { FileOp } End
Begin := "*** Begin Patch" NEWLINE
End := "*** End Patch" NEWLINE
FileOp := AddFile | DeleteFile | UpdateFile
AddFile := "*** Add File: " path NEWLINE { "+" line NEWLINE }
DeleteFile := "*** Delete File: " path NEWLINE
UpdateFile := "*** Update File: " path NEWLINE [ MoveTo ] { Hunk }
MoveTo := "*** Move to: " newPath NEWLINE
Hunk := "@@" [ header ] NEWLINE { HunkLine } [ "*** End of File" NEWLINE ]
HunkLine := (" " | "-" | "+") text NEWLINE

A full patch can combine several operations:

*** Begin Patch
*** Add File: hello.txt
+Hello world
*** Update File: src/app.py
*** Move to: src/main.py
@@ def greet():
-print("Hi")
+print("Hello, world!")
*** Delete File: obsolete.txt
*** End Patch

It is important to remember:

- You must include a header with your intended action (Add/Delete/Update)
- You must prefix new lines with `+` even when creating a new file
- File references can only be relative, NEVER ABSOLUTE.
"#;

/// Parameters of the `apply_patch` tool.
pub(crate) const APPLY_PATCH_PARAMETERS: &str = r#"{"type": "object", "additionalProperties": false, "properties": {"input": {"type": "string", "description": "The entire contents of the apply_patch command (the *** Begin Patch ... *** End Patch envelope)."}}, "required": ["input"]}"#;
