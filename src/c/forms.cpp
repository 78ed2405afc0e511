#include "c/forms.h"

#include <string>

#include "c/status.h"

namespace talon {
namespace {

GrammarText text_of(std::int32_t form, const std::string& text) {
  switch (form) {
    case TALON_FORM_JSON_SCHEMA:
      return {GrammarText::Kind::json_schema, text};
    case TALON_FORM_REGEX:
      return {GrammarText::Kind::regex, text};
    case TALON_FORM_GRAMMAR:
      return {grammar_kind(text), text};
    case TALON_FORM_CHOICE:
      return {GrammarText::Kind::choice, text};
    default:
      throw UsageError(fmt::format("request->form: expected a talon_form, found {}", form));
  }
}

}  // namespace

std::optional<GrammarText> form_of(const talon_request& request) {
  if (request.form == TALON_FORM_NONE) {
    require(!request.form_text, "request->form", "the talon_form of form_text",
            "0, TALON_FORM_NONE");
    return std::nullopt;
  }
  const char* text = request.form_text ? request.form_text : "";
  GrammarText form = text_of(request.form, text);
  require_pointer(request.form_text, "request->form_text", "a text");
  return form;
}

std::shared_ptr<const ConstraintSource> constraint_of(const talon_request& request,
                                                      SharedModel& model) {
  const std::optional<GrammarText> form = form_of(request);
  if (!form) return nullptr;
  model.loaded.require_tokenizer();
  require(model.grammars.has_value(), "request->form", "0, as all answers of a model of pictures",
          request.form);
  try {
    return model.grammars->get(*form);
  } catch (const BusyError& error) {
    throw StatusError(TALON_QUEUE_FULL, fmt::format("request->form_text: {}", error.what()));
  } catch (const Error& error) {
    throw UsageError(fmt::format("request->form_text: {}", error.what()));
  }
}

}  // namespace talon
