#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/chat_template.h"

// Pieces of grammars in llguidance's Lark.
namespace talon {

inline constexpr const char* kLarkAnyText = "/(?s:.)*/";

/// Rules of a grammar, each on a line.
struct LarkRules {
  std::string lines;
  int next = 0;  // number

  /// Adds a rule; returns its name.
  std::string add(const std::string& name, const std::string& body);
  /// The same with a number behind the name, which no other has.
  std::string add_numbered(const std::string& name, const std::string& body);
};

/// A text that is written as it is.
std::string lark_text(const std::string& text);
/// The inside of a regular expression of that text alone.
std::string lark_escaped(std::string_view text);
/// The regular expression of any text that has none of these in it.
std::string lark_text_without(std::span<const std::string_view> parts);
/// Values of a JSON schema, an object or `true`, written on one line.
std::string lark_json(OrderedJson schema);

}  // namespace talon
