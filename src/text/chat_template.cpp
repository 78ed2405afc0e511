#include "text/chat_template.h"

#include <memory>
#include <utility>

#include "core/error.h"
#include "text/bridge/bridge.h"
#include "text/bridge_buffer.h"
#include "text/utf8.h"

namespace talon {
namespace {

/// U+10FFFF, which is no character: stands behind the words of a message that is continued.
constexpr std::string_view kEndOfWords = "\xF4\x8F\xBF\xBF";

/// Templates that print a whole message print its keys in the order given.
OrderedJson messages_json(std::span<const ChatMessage> messages) {
  OrderedJson list = OrderedJson::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", replace_ill_formed(message.role)},
                    {"content", replace_ill_formed(message.content)}});
    for (const auto& [name, value] : message.more.items()) list.back()[name] = value;
  }
  return list;
}

}  // namespace

struct ChatTemplate::Impl {
  std::unique_ptr<talon_template, decltype(&talon_template_free)> compiled;
  std::string source;
  std::string start_text;
  std::string end_text;
};

ChatTemplate::ChatTemplate(std::string_view source, std::string start_text, std::string end_text) {
  std::string text = replace_ill_formed(source);
  BridgeBuffer error;
  talon_template* compiled = talon_template_compile(text.data(), text.size(), error.out());
  if (compiled == nullptr) fail_bridge("compile chat template", error.text());
  impl_ = std::make_unique<Impl>(Impl{{compiled, &talon_template_free},
                                      std::move(text),
                                      std::move(start_text),
                                      std::move(end_text)});
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

const std::string& ChatTemplate::source() const { return impl_->source; }

std::string ChatTemplate::render(std::span<const ChatMessage> messages,
                                 const ChatRenderOptions& options) const {
  OrderedJson list = messages_json(messages);
  if (options.continues_last) {
    list.back()["content"].get_ref<std::string&>() += kEndOfWords;
  }
  OrderedJson variables = {
      {"messages", std::move(list)},
      {"add_generation_prompt", options.add_generation_prompt && !options.continues_last},
      {"bos_token", impl_->start_text},
      {"eos_token", impl_->end_text},
      {"tools", nullptr},
      {"documents", nullptr}};
  for (const auto& [name, value] : options.variables.items()) variables[name] = value;
  const std::string json = variables.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  BridgeBuffer text;
  BridgeBuffer error;
  if (!talon_template_render(impl_->compiled.get(), json.data(), json.size(), text.out(),
                             error.out())) {
    fail_bridge("render chat template", error.text());
  }
  std::string rendered(text.text());
  if (!options.continues_last) return rendered;
  const std::size_t end = rendered.rfind(kEndOfWords);
  if (end == std::string::npos) {
    fail(
        "render chat template: expected it to write what the last message says, found it does not");
  }
  return rendered.substr(0, end);
}

}  // namespace talon
