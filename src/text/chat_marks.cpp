#include "text/chat_marks.h"

#include <algorithm>

#include "core/error.h"
#include "text/utf8.h"

namespace talon {
namespace {

constexpr char32_t kFirstPrivate = 0xF0000;
constexpr char32_t kLastPrivate = 0x10FFFD;

bool is_space(char32_t c) {
  return c <= 0x20 || c == 0x7F || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/// Characters that templates trim, split at and escape.
bool stays(char32_t c) { return is_space(c) || c == '"' || c == '\'' || c == '\\'; }

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// REQUIRES: well-formed text, at < its size. Moves `at` behind the character.
char32_t take_character(std::string_view text, std::size_t& at) {
  const auto byte = [&] { return static_cast<unsigned char>(text[at++]); };
  const unsigned char first = byte();
  if (first < 0x80) return first;
  const int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  auto character = static_cast<char32_t>(first & (0x3F >> more));
  for (int i = 0; i < more; ++i) character = character << 6 | (byte() & 0x3F);
  return character;
}

void append_character(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::string lower(std::string_view text) {
  std::string low(text);
  std::ranges::transform(low, low.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return low;
}

std::vector<AddedPiece> lower_pieces(std::span<const std::string> texts) {
  std::vector<AddedPiece> pieces;
  for (const std::string& text : texts) pieces.push_back({0, lower(text), false});
  return pieces;
}

/// Bytes of `text` that belong to the text of a special token, in any case, overlaps joined.
std::vector<TextRange> occurrences(const AddedPieces& special_texts, std::string_view text) {
  std::vector<TextRange> found;
  const std::string low = lower(text);
  for (std::size_t at = 0; at < low.size();) {
    const auto match = special_texts.find(low, at);
    if (!match) break;
    at = match->begin + 1;
    const std::size_t end = match->begin + match->size;
    if (!found.empty() && found.back().end >= match->begin) {
      found.back().end = std::max(found.back().end, end);
    } else {
      found.push_back({match->begin, end});
    }
  }
  return found;
}

/// `ranges` and each of `edges` that lies in none of them.
std::vector<TextRange> with_edges(std::string_view text, std::span<const TextRange> ranges,
                                  const std::set<char>& edges) {
  std::vector<TextRange> all;
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (next < ranges.size() && at == ranges[next].begin) {
      all.push_back(ranges[next]);
      at = ranges[next++].end - 1;
    } else if (edges.contains(text[at])) {
      all.push_back({at, at + 1});
    }
  }
  return all;
}

/// Signs at the beginnings and ends of `texts`: a template that puts pieces of variables together
/// makes no text of a special token of them without one.
std::set<char> edges_of(std::span<const std::string> texts) {
  std::set<char> edges;
  const auto add = [&](char c) {
    if (c > ' ' && c < 0x7F && !is_letter_or_digit(c) && !stays(static_cast<char32_t>(c))) {
      edges.insert(c);
    }
  };
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    add(text.front());
    add(text.back());
  }
  return edges;
}

/// Roles are names, which templates print and compare; anything else is a user's text.
bool is_name(std::string_view role) {
  return std::ranges::all_of(role,
                             [](char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; });
}

}  // namespace

ChatMarks::ChatMarks(std::span<const std::string> special_texts, std::string_view template_source)
    : special_texts_(lower_pieces(special_texts)), edges_(edges_of(special_texts)) {
  reserve(template_source);
}

void ChatMarks::reserve(std::string_view text) {
  // Four bytes, the first of them 0xF3 or 0xF4.
  for (std::size_t at = 0; at < text.size();) {
    const bool is_private = static_cast<unsigned char>(text[at]) >= 0xF3;
    const char32_t character = is_private ? take_character(text, at) : (++at, 0);
    if (is_private) taken_.insert(character);
  }
}

void ChatMarks::reserve_in(const OrderedJson& value) {
  if (const auto* text = value.get_ptr<const std::string*>()) reserve(replace_ill_formed(*text));
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) {
    if (value.is_object()) reserve(replace_ill_formed(key));
    reserve_in(item);
  }
}

char32_t ChatMarks::mark_of(char32_t character) {
  const auto known = marks_.find(character);
  if (known != marks_.end()) return known->second;
  const auto is_free = [&] { return (next_ & 0xFFFE) != 0xFFFE && !taken_.contains(next_); };
  while (next_ <= kLastPrivate && !is_free()) ++next_;
  if (next_ > kLastPrivate) {
    fail(
        "mark what messages say: expected some of the characters U+F0000 to U+10FFFD in no "
        "message and no variable, found all of them");
  }
  marks_[character] = next_;
  characters_[next_] = character;
  return next_++;
}

std::string ChatMarks::mark(std::string_view text, Marked what) {
  std::vector<TextRange> ranges{{0, text.size()}};
  if (what != Marked::all) ranges = occurrences(special_texts_, text);
  if (what == Marked::edges) ranges = with_edges(text, ranges, edges_);
  std::string marked;
  std::size_t at = 0;
  for (const TextRange& range : ranges) {
    marked += text.substr(at, range.begin - at);
    for (at = range.begin; at < range.end;) {
      const char32_t character = take_character(text, at);
      const bool mark = what != Marked::all || !stays(character);
      append_character(marked, mark ? mark_of(character) : character);
    }
  }
  return marked.append(text.substr(at));
}

OrderedJson ChatMarks::mark_in(const OrderedJson& value, Marked what, std::string_view key) {
  const Marked of_names = what == Marked::all ? Marked::edges : what;
  if (const auto* text = value.get_ptr<const std::string*>()) {
    return mark(replace_ill_formed(*text), key == "type" ? of_names : what);
  }
  OrderedJson marked = value;
  if (value.is_array()) {
    for (OrderedJson& item : marked) item = mark_in(item, what, key);
  } else if (value.is_object()) {
    marked = OrderedJson::object();
    const Marked of_keys = key == "arguments" ? what : of_names;
    for (const auto& [name, item] : value.items()) {
      // Below arguments all are.
      const std::string_view place = key == "arguments" ? key : std::string_view(name);
      marked[mark(replace_ill_formed(name), of_keys)] = mark_in(item, what, place);
    }
  }
  return marked;
}

ChatMarks::Input ChatMarks::mark(std::span<const ChatMessage> messages,
                                 const OrderedJson& variables, Marked what) {
  std::vector<ChatMessage> well_formed;
  for (const ChatMessage& message : messages) {
    well_formed.push_back(
        {replace_ill_formed(message.role), replace_ill_formed(message.content), message.more});
    reserve(well_formed.back().role);
    reserve(well_formed.back().content);
    reserve_in(message.more);
  }
  reserve_in(variables);
  for (ChatMessage& message : well_formed) {
    message.content = mark(message.content, what);
    if (!is_name(message.role)) message.role = mark(message.role, what);
    message.more = mark_in(message.more, what);
  }
  return {std::move(well_formed), mark_in(variables, what == Marked::all ? Marked::edges : what)};
}

RenderedChat ChatMarks::unmark(std::string_view rendered) const {
  RenderedChat chat;
  std::vector<TextRange> ranges;
  for (std::size_t at = 0; at < rendered.size();) {
    const char32_t character = take_character(rendered, at);
    const auto marked =
        character >= kFirstPrivate ? characters_.find(character) : characters_.end();
    const std::size_t begin = chat.text.size();
    append_character(chat.text, marked == characters_.end() ? character : marked->second);
    if (marked == characters_.end()) continue;
    if (ranges.empty() || ranges.back().end != begin) ranges.push_back({begin, begin});
    ranges.back().end = chat.text.size();
  }
  chat.own = join_ranges(chat.text, ranges);
  return chat;
}

std::optional<TextRange> own_range(std::string_view text) {
  std::optional<TextRange> range;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (stays(take_character(text, at))) continue;
    range = TextRange{range ? range->begin : begin, at};
  }
  return range;
}

std::vector<TextRange> join_ranges(std::string_view text, std::span<const TextRange> ranges) {
  std::vector<TextRange> joined;
  for (const TextRange& range : ranges) {
    const std::size_t end = joined.empty() ? 0 : joined.back().end;
    const bool apart = joined.empty() || own_range(text.substr(end, range.begin - end));
    if (apart) {
      joined.push_back(range);
    } else {
      joined.back().end = range.end;
    }
  }
  return joined;
}

}  // namespace talon
