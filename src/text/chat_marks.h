#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/sentencepiece/added_pieces.h"
#include "text/text_range.h"

namespace talon {

/// A rendered chat, and which of its bytes came from the messages: in order and apart.
struct RenderedChat {
  std::string text;
  std::vector<TextRange> own;
};

/// Tells the words of messages from those of a template: characters of the messages go into the
/// template as others that stand for them, from the planes of Unicode that are for private use, and
/// are put back afterwards. White space, quotes and backslashes stay, because templates trim, split
/// and escape; so do the lengths of texts. A template that looks for other characters, or changes
/// them, gives another text than without marks: compare.
class ChatMarks {
 public:
  enum class Marked {
    all,           // what messages say; in names and the variables as edges
    edges,         // special_texts, and signs that such a text begins or ends with
    special_texts  // in both
  };

  /// `template_source`, messages and variables: code points in them stand for nothing else.
  ChatMarks(std::span<const std::string> special_texts, std::string_view template_source);

  struct Input {
    std::vector<ChatMessage> messages;
    OrderedJson variables;
  };
  /// Throws Error where too few code points are left. REQUIRES: all or special_texts.
  Input mark(std::span<const ChatMessage> messages, const OrderedJson& variables, Marked what);

  /// Puts the characters back. White space and quotes between two that were marked count as theirs.
  RenderedChat unmark(std::string_view rendered) const;

 private:
  std::string mark(std::string_view text, Marked what);
  /// key: under which `value` stands. Of calls the kinds are names, and so are the keys but those
  /// of arguments.
  OrderedJson mark_in(const OrderedJson& value, Marked what, std::string_view key = "");
  char32_t mark_of(char32_t character);
  void reserve(std::string_view text);
  void reserve_in(const OrderedJson& value);

  AddedPieces special_texts_;  // in lower case
  std::set<char> edges_;
  std::set<char32_t> taken_;  // of the planes for private use
  std::map<char32_t, char32_t> marks_;
  std::map<char32_t, char32_t> characters_;  // by mark
  char32_t next_ = 0xF0000;
};

/// The bytes of `text` that a message of its own would have in RenderedChat::own; nothing if none.
std::optional<TextRange> own_range(std::string_view text);
/// Joins neighbours between which `text` has only white space and quotes.
std::vector<TextRange> join_ranges(std::string_view text, std::span<const TextRange> ranges);

}  // namespace talon
