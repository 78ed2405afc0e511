#include "serve/tools/readers.h"
#include "serve/tools/spelled_call.h"
#include "serve/tools/tool_use.h"
#include "serve/tools/whole_call_reader.h"

namespace talon {
namespace {

/// As the model writes it, or the object that a grammar makes of it.
WholeCallReader::Calls read_call(std::string_view text, const ToolSchemas& schemas) {
  if (auto call = read_spelled_call(text, schemas)) return {*std::move(call)};
  const OrderedJson object = object_in(std::string(text));
  if (object.is_null()) return {};
  const auto name = object.find("name"), arguments = object.find("arguments");
  if (name == object.end() || !name->is_string() || arguments == object.end()) return {};
  return {{name->get<std::string>(), arguments->is_object() ? arguments->dump() : "{}"}};
}

}  // namespace

std::unique_ptr<AnswerReader> make_seed_reader(ToolSchemas schemas) {
  return std::make_unique<WholeCallReader>(
      "<seed:tool_call>", "</seed:tool_call>",
      [schemas = std::move(schemas)](std::string_view text) { return read_call(text, schemas); });
}

}  // namespace talon
