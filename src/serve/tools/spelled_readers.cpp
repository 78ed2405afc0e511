#include <utility>

#include "serve/tools/json_call.h"
#include "serve/tools/readers.h"
#include "serve/tools/spelled_call.h"
#include "serve/tools/tool_use.h"
#include "serve/tools/whole_call_reader.h"

namespace talon {
namespace {

/// Where the model wrote none of these, the object that a grammar makes of a call.
WholeCallReader::Calls or_object(WholeCallReader::Calls calls, std::string_view text) {
  if (!calls.empty()) return calls;
  if (auto call = call_of_object(object_in(std::string(text)))) calls.push_back(*std::move(call));
  return calls;
}

WholeCallReader::Calls calls_of(std::optional<ReadAnswer::Call> call) {
  if (!call) return {};
  return {*std::move(call)};
}

}  // namespace

std::unique_ptr<AnswerReader> make_seed_reader(ToolSchemas schemas) {
  return std::make_unique<WholeCallReader>("<seed:tool_call>", "</seed:tool_call>",
                                           [schemas = std::move(schemas)](std::string_view text) {
                                             return or_object(
                                                 calls_of(read_spelled_call(text, schemas)), text);
                                           });
}

std::unique_ptr<AnswerReader> make_minimax_reader(ToolSchemas schemas) {
  return std::make_unique<WholeCallReader>("<minimax:tool_call>", "</minimax:tool_call>",
                                           [schemas = std::move(schemas)](std::string_view text) {
                                             return or_object(read_invocations(text, schemas),
                                                              text);
                                           });
}

std::unique_ptr<AnswerReader> make_hunyuan_reader(ToolSchemas schemas) {
  return std::make_unique<WholeCallReader>(
      "<tool_call>", "</tool_call>",
      [schemas = std::move(schemas)](std::string_view text) {
        return or_object(calls_of(read_hunyuan_call(text, schemas, /*is_open=*/false)), text);
      },
      std::vector<std::string_view>{"</tool_call>", "<tool_calls>", "</tool_calls>"});
}

std::unique_ptr<AnswerReader> make_open_hunyuan_reader(ToolSchemas schemas) {
  return std::make_unique<WholeCallReader>(
      "<tool_call:opensource>", "</tool_call:opensource>",
      [schemas = std::move(schemas)](std::string_view text) {
        return or_object(calls_of(read_hunyuan_call(text, schemas, /*is_open=*/true)), text);
      },
      std::vector<std::string_view>{"</tool_call:opensource>", "<tool_calls:opensource>",
                                    "</tool_calls:opensource>"});
}

}  // namespace talon
