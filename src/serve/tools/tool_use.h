#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tools/answer_style.h"
#include "text/chat_template.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace talon {

/// A function that a client offers.
struct Tool {
  std::string name;
  std::string description;
  OrderedJson parameters = OrderedJson::object();  // a JSON schema
  bool strict = false;                             // arguments keep to it
};

/// The tools of a request, and whether they are called.
struct ToolUse {
  enum class Choice { none, automatic, required } choice = Choice::none;
  std::vector<Tool> tools;   // all
  std::vector<Tool> chosen;  // that may be called
  bool parallel = true;      // more than one call in an answer

  bool is_offered() const { return choice != Choice::none && !tools.empty(); }
  /// As templates take them, in the shape of OpenAI's interface.
  OrderedJson for_template() const;
};

/// The object that a text holds, an empty one of a blank text; null if it holds none, or one whose
/// depth or entries are too many to be worked on.
OrderedJson object_in(const std::string& text);

/// A call as templates take it. arguments: JSON; an object if they are one.
OrderedJson call_for_template(const std::string& id, const std::string& name,
                              const std::string& arguments);

/// For templates that write a call by its id alone, as Kimi's: renames calls and the results that
/// belong to them as that family does, functions.NAME:NUMBER, counted over all messages.
void name_calls_by_ids(std::vector<ChatMessage>& messages);

/// For templates that take no other ids, as Mistral's: gives calls and their results ids of nine
/// letters and digits. One that is such stays, another always becomes the same.
void shorten_call_ids(std::vector<ChatMessage>& messages);

/// For templates that tell of tools and leave out the calls that were made, as Granite 3's and
/// LFM2's: adds them to what their messages say, as the models of `dialect` write them. Of others
/// than these and Hermes', whose templates write calls, nothing.
void spell_calls(std::vector<ChatMessage>& messages, ToolDialect dialect);

/// For templates that write one call of a message, or refuse more, as gpt-oss' and Llama 3's:
/// makes a message of each, which what it gave follows.
void split_calls(std::vector<ChatMessage>& messages);

/// For templates that look for what calls gave in the message that calls, as Gemma 4's first does:
/// moves it there (`tool_responses`), and with it what the assistant says next. What the message
/// says itself becomes one before it: that template has it behind the results.
void move_results(std::vector<ChatMessage>& messages);

/// Calls of earlier turns and what they gave, in the shape that a template takes which tells of
/// tools: by one of the ways above, or as they are.
void fit_calls(const ChatTemplate& chat, std::vector<ChatMessage>& messages);

/// Whether a template writes the tools that it is given, after a message of the system or without
/// one. DeepSeek's of R1 and V3 write calls alone, Phi 4 mini's the tools that a message brings.
bool writes_tools(const ChatTemplate& chat, bool with_system);
/// Whether a template writes what a message of the system says, at the beginning or later.
bool takes_system(const ChatTemplate& chat);
bool takes_later_system(const ChatTemplate& chat);
/// Whether it writes messages of one role that follow each other.
bool takes_repeated_turns(const ChatTemplate& chat);

/// Makes messages of that role, from number `first` on, the user's. With those of the user beside
/// them they are one: some templates let roles take turns.
void tell_as_user(std::vector<ChatMessage>& messages, std::string_view role, std::size_t first = 0);

/// For templates that do not tell of tools: tells them in the system message, or before the first
/// of the user to a template that takes none, and writes calls and their results as text.
void spell_tools(std::vector<ChatMessage>& messages, const ToolUse& use, bool takes_system);

/// What an answer must look like that calls tools as `use` wants, in the words of the style;
/// nothing: anything. otherwise: what it must look like where it calls none.
std::optional<GrammarText> answer_grammar(const ToolUse& use, const AnswerStyle& style,
                                          const Tokenizer& tokenizer,
                                          const std::optional<GrammarText>& otherwise);

}  // namespace talon
