#include "serve/api/response_items.h"

#include "serve/api/answer_json.h"

namespace talon {
namespace {

Json text_part(const std::string& text) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json thought_part(const std::string& text) { return {{"type", "reasoning_text"}, {"text", text}}; }

}  // namespace

ResponseItems::Kind ResponseItems::kind_of(const AnswerPart& part) {
  if (part.kind == AnswerPart::Kind::content) return Kind::message;
  return part.kind == AnswerPart::Kind::reasoning ? Kind::reasoning : Kind::call;
}

Json ResponseItems::item_json(const Item& item) {
  const bool begins = item.status == "in_progress";
  switch (item.kind) {
    case Kind::message:
      return {{"type", "message"},
              {"id", item.id},
              {"status", item.status},
              {"role", "assistant"},
              {"content", begins ? Json::array() : Json::array({text_part(item.text)})}};
    case Kind::reasoning:
      return {{"type", "reasoning"},
              {"id", item.id},
              {"status", item.status},
              {"summary", Json::array()},
              {"content", begins ? Json::array() : Json::array({thought_part(item.text)})}};
    case Kind::call:
      return {{"type", "function_call"}, {"id", item.id},          {"call_id", item.call_id},
              {"name", item.name},       {"arguments", item.text}, {"status", item.status}};
  }
  return nullptr;
}

Json ResponseItems::at_last(Json more) const {
  more["item_id"] = items_.back().id;
  more["output_index"] = items_.size() - 1;
  if (items_.back().kind != Kind::call) more["content_index"] = 0;
  return more;
}

std::string ResponseItems::begin(Kind kind, const std::string& name, const Tell& tell) {
  std::string events = is_open_ ? end("completed", tell) : "";
  const char* prefix = kind == Kind::message ? "msg_" : kind == Kind::call ? "fc_" : "rs_";
  items_.push_back({kind, new_id(prefix), new_id("call_"), name, "", "in_progress"});
  is_open_ = true;
  events += tell("response.output_item.added",
                 {{"output_index", items_.size() - 1}, {"item", item_json(items_.back())}});
  if (kind != Kind::call) {
    const Json part = kind == Kind::message ? text_part("") : thought_part("");
    events += tell("response.content_part.added", at_last({{"part", part}}));
  }
  return events;
}

std::string ResponseItems::add(const AnswerReader::Parts& parts, const Tell& tell) {
  std::string events;
  for (const AnswerPart& part : parts) {
    const Kind kind = kind_of(part);
    const bool is_call = part.kind == AnswerPart::Kind::call;
    if (is_call || !is_open_ || items_.back().kind != kind) {
      events += begin(kind, is_call ? part.text : "", tell);
    }
    if (is_call) continue;
    items_.back().text += part.text;
    Json news = at_last({{"delta", part.text}});
    if (kind == Kind::message) news["logprobs"] = Json::array();
    events += tell(kind == Kind::message     ? "response.output_text.delta"
                   : kind == Kind::reasoning ? "response.reasoning_text.delta"
                                             : "response.function_call_arguments.delta",
                   std::move(news));
  }
  return events;
}

std::string ResponseItems::end(const std::string& status, const Tell& tell) {
  Item& item = items_.back();
  item.status = status;
  is_open_ = false;
  std::string events;
  if (item.kind == Kind::message) {
    events += tell("response.output_text.done",
                   at_last({{"text", item.text}, {"logprobs", Json::array()}}));
    events += tell("response.content_part.done", at_last({{"part", text_part(item.text)}}));
  } else if (item.kind == Kind::reasoning) {
    events += tell("response.reasoning_text.done", at_last({{"text", item.text}}));
    events += tell("response.content_part.done", at_last({{"part", thought_part(item.text)}}));
  } else {
    events += tell("response.function_call_arguments.done",
                   at_last({{"name", item.name}, {"arguments", item.text}}));
  }
  return events + tell("response.output_item.done",
                       {{"output_index", items_.size() - 1}, {"item", item_json(item)}});
}

std::string ResponseItems::finish(bool is_cut, const Tell& tell) {
  std::string events;
  if (items_.empty()) events += begin(Kind::message, "", tell);
  return events + end(is_cut ? "incomplete" : "completed", tell);
}

Json ResponseItems::output() const {
  Json list = Json::array();
  for (const Item& item : items_) list.push_back(item_json(item));
  return list;
}

}  // namespace talon
