#include "bench/peer/event_stream.h"

#include "io/json.h"

namespace talon {
namespace {

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

/// Of a completion or of a chat.
std::string text_of(const Json& choice) {
  const Json* text = member(choice, "text");
  if (const Json* delta = member(choice, "delta")) text = member(*delta, "content");
  return text && text->is_string() ? text->get<std::string>() : "";
}

}  // namespace

void EventStream::push(std::string_view bytes) {
  pending_ += bytes;
  for (std::size_t end; (end = pending_.find('\n')) != std::string::npos;) {
    const std::string line = pending_.substr(0, end);
    pending_.erase(0, end + 1);
    read_line(line);
  }
}

void EventStream::read_line(std::string_view line) {
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) return;
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (line.starts_with("[DONE]")) is_complete_ = true;
  const Json event = Json::parse(line, nullptr, false);
  if (const Json* error = member(event, "error")) error_ = error->dump();
  const Json* choices = member(event, "choices");
  if (!choices || !choices->is_array() || choices->empty()) return;
  const Json& choice = choices->front();
  const Json* finish = member(choice, "finish_reason");
  if (finish && finish->is_string()) is_complete_ = true;
  if (const std::string text = text_of(choice); !text.empty()) on_text_(text);
}

}  // namespace talon
