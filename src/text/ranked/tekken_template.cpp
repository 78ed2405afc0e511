#include "text/ranked/tekken_template.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace talon {
namespace {

constexpr std::string_view kChatMarks[] = {"<s>", "</s>", "[INST]", "[/INST]"};
constexpr std::string_view kToolMarks[] = {
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",    "[TOOL_RESULTS]",   "[/TOOL_RESULTS]",
};

/// The last message of a user begins with all that the system says.
constexpr std::string_view kTemplateV3 =
    R"({% set ns = namespace(user=-1, system='') %}{% for message in messages %})"
    R"({% if message.role == 'user' %}{% set ns.user = loop.index0 %})"
    R"({% elif message.role == 'system' %})"
    R"({% set ns.system = ns.system + message.content + '\n\n' %}{% endif %}{% endfor %}<s>)"
    R"({% for message in messages %}{% if message.role == 'user' %})"
    R"([INST]{% if loop.index0 == ns.user %}{{ ns.system }}{% endif %}{{ message.content }}[/INST])"
    R"({% elif message.role == 'assistant' %}{{ message.content }}</s>)"
    R"({% elif message.role != 'system' %})"
    R"({{ raise_exception('expected messages of the system, a user and the assistant') }})"
    R"({% endif %}{% endfor %})";

constexpr std::string_view kArguments =
    R"({% if call.function.arguments is string %}{{ call.function.arguments }})"
    R"({% else %}{{ call.function.arguments | tojson }}{% endif %})";

bool has_marks(const Vocabulary& vocabulary, std::span<const std::string_view> marks) {
  return std::ranges::all_of(
      marks, [&](std::string_view mark) { return vocabulary.find_special(mark).has_value(); });
}

/// What an assistant's message says of its calls.
std::string calls_of(std::string_view version) {
  const std::string arguments(kArguments);
  if (version == "v7") {
    return R"([TOOL_CALLS][{% for call in message.tool_calls %})"
           R"({% if not loop.first %}, {% endif %})"
           R"({"name": {{ call.function.name | tojson }}, "arguments": )" +
           arguments +
           R"({% if call.id %}, "id": {{ call.id | tojson }}{% endif %}{{ '}' }}{% endfor %}])";
  }
  const std::string id =
      version == "v11" ? "{% if call.id %}[CALL_ID]{{ call.id }}{% endif %}" : "";
  return "{% for call in message.tool_calls %}[TOOL_CALLS]{{ call.function.name }}" + id +
         "[ARGS]" + arguments + "{% endfor %}";
}

/// v7 and later. Tools stand before the last message of a user, in v13 before the first.
std::string template_with_tools(std::string_view version, bool thinks) {
  const bool is_v13 = version == "v13";
  const std::string user =
      is_v13 ? "message.role == 'user' and ns.user < 0" : "message.role == 'user'";
  const std::string thought =
      thinks ? "{% if message.reasoning_content %}[THINK]{{ message.reasoning_content }}[/THINK]"
               "{% endif %}"
             : "";
  const std::string result_of = is_v13 ? "" : "{{ message.tool_call_id }}[TOOL_CONTENT]";
  return "{% set ns = namespace(user=-1) %}{% for message in messages %}{% if " + user +
         " %}{% set ns.user = loop.index0 %}{% endif %}{% endfor %}<s>"
         "{% for message in messages %}{% if message.role == 'system' %}"
         "[SYSTEM_PROMPT]{{ message.content }}[/SYSTEM_PROMPT]"
         "{% elif message.role == 'user' %}{% if tools and loop.index0 == ns.user %}"
         "[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
         "[INST]{{ message.content }}[/INST]"
         "{% elif message.role == 'assistant' %}" +
         thought + "{% if message.content %}{{ message.content }}{% endif %}" +
         "{% if message.tool_calls %}" + calls_of(version) +
         "{% endif %}</s>{% elif message.role == 'tool' %}[TOOL_RESULTS]" + result_of +
         "{{ message.content }}[/TOOL_RESULTS]{% else %}"
         "{{ raise_exception('expected messages of the system, a user, the assistant and tools') }}"
         "{% endif %}{% endfor %}";
}

}  // namespace

std::optional<std::string> tekken_chat_template(std::string_view version,
                                                const Vocabulary& vocabulary) {
  const auto has = [&](std::string_view mark) { return has_marks(vocabulary, {&mark, 1}); };
  if (!has_marks(vocabulary, kChatMarks)) return std::nullopt;
  if (version == "v3") return std::string(kTemplateV3);
  const bool has_content_mark = version == "v13" || has("[TOOL_CONTENT]");
  const bool has_call_marks = version == "v7" || has("[ARGS]");
  const bool has_id_mark = version != "v11" || has("[CALL_ID]");
  const bool is_known = version == "v7" || version == "v11" || version == "v13";
  const bool has_all =
      has_marks(vocabulary, kToolMarks) && has_content_mark && has_call_marks && has_id_mark;
  if (!is_known || !has_all) return std::nullopt;
  const bool thinks = version == "v13" && has("[THINK]") && has("[/THINK]");
  return template_with_tools(version, thinks);
}

}  // namespace talon
