#include "serve/api/text_paths.h"

#include <chrono>

#include "draw/usual_sampling.h"
#include "runtime/machine.h"
#include "serve/api/answer_fields.h"
#include "serve/api/api_error.h"
#include "serve/api/generate.h"
#include "serve/api/messages.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace talon {
namespace {

std::vector<TokenId> text_tokens(const ServedModel& model, const Fields& fields,
                                 const RequestLimits& limits) {
  const bool is_content = fields.find("content");
  const char* name = is_content ? "content" : "prompt";
  const auto text = fields.text(name);
  if (!text) fields.refuse("content", "a text");
  // llama.cpp, of which `content` is, adds a start where it is asked to; vLLM, of which `prompt`
  // is, where it is not asked not to.
  const bool adds_start =
      fields.flag("add_special_tokens").value_or(fields.flag("add_special").value_or(!is_content));
  try {
    check_prompt_bytes(model.tokenizer(), *text, most_tokens(model, limits));
  } catch (const PromptTooLong& error) {
    throw prompt_too_long(name, error.what(), most_tokens(model, limits));
  }
  const bool parses_special = fields.flag("parse_special").value_or(true);
  return model.tokenizer().encode(*text,
                                  {.parse_special = parses_special, .add_start = adds_start});
}

/// A text; of what is no whole character its bytes.
Json piece_json(const std::string& bytes) {
  if (is_well_formed(bytes)) return bytes;
  return std::vector<unsigned char>(bytes.begin(), bytes.end());
}

Json pieces_json(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  Json pieces = Json::array();
  for (const TokenId token : tokens) {
    pieces.push_back({{"id", token}, {"piece", piece_json(tokenizer.bytes_of(token))}});
  }
  return pieces;
}

Json job_json(const JobProgress& job) {
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - job.came;
  return {{"id", job.id},
          {"seconds", age.count()},
          {"prompt_tokens", job.prompt_tokens},
          {"answer_tokens", job.answer_tokens},
          {"drafted", job.drafted},
          {"accepted", job.accepted}};
}

Json learning_json(const LearnStatistics& learning) {
  const TextStatistics& texts = learning.texts;
  Json json = {{"texts", texts.texts},
               {"held_out", texts.held_out},
               {"answer_tokens", texts.answer_tokens},
               {"left_out", texts.left_out}};
  json["phase"] = name_of(learning.phase);
  json["fresh_tokens"] = learning.fresh_tokens;
  json["rounds"] = learning.rounds;
  json["swaps"] = learning.swaps;
  if (const std::optional<LearnRound>& round = learning.last) {
    json["last_round"] = {
        {"before", round->before}, {"after", round->after}, {"used", round->used}};
    if (round->ordinary_before > 0) {
      json["last_round"]["ordinary_before"] = round->ordinary_before;
      json["last_round"]["ordinary_after"] = round->ordinary_after;
    }
  }
  const std::string& problem = texts.problem.empty() ? learning.problem : texts.problem;
  if (!problem.empty()) json["problem"] = problem;
  return json;
}

/// What a model draws, and how it is asked.
Json pictures_json(const ServedModel& model) {
  const ImagePlan& plan = *model.config().image;
  const PromptChoices& choices = model.pictures->choices();
  Json json = {{"width", model.pictures->width()}, {"height", model.pictures->height()},
               {"columns", plan.columns},          {"rows", plan.rows},
               {"prompt", choices.kind},           {"drafter", model.host->drafter()}};
  json["guidance"] = usual_sampling(model.config()).guidance;
  if (!choices.styles.empty()) json["styles"] = choices.styles;
  if (choices.classes > 0) json["classes"] = choices.classes;
  return json;
}

}  // namespace

Json tokenize(const ServedModel& model, const Json& body, const std::string& text,
              const RequestLimits& limits) {
  const Fields fields(body);
  std::vector<TokenId> tokens;
  if (!fields.find("content") && !fields.find("prompt") && fields.find("messages")) {
    tokens = chat_prompt(model, read_chat(body, text, limits), limits).tokens;
  } else {
    tokens = text_tokens(model, fields, limits);
  }
  Json answer = {{"count", tokens.size()}, {"max_model_len", model.config().context}};
  if (fields.flag("with_pieces").value_or(false)) {
    answer["tokens"] = pieces_json(model.tokenizer(), tokens);
  } else {
    answer["tokens"] = tokens;
  }
  return answer;
}

Json detokenize(const ServedModel& model, const Json& body) {
  const Fields fields(body);
  const Json* list = fields.array("tokens", static_cast<std::size_t>(model.config().context));
  if (!list) fields.refuse("tokens", "an array of token ids");
  const std::string text =
      model.tokenizer().decode(read_tokens("tokens", *list, model.config().vocabulary), false);
  return {{"content", text}, {"prompt", text}};
}

Json apply_template(const ServedModel& model, const Json& body, const std::string& text,
                    const RequestLimits& limits) {
  return {{"prompt", chat_prompt(model, read_chat(body, text, limits), limits).chat.text}};
}

Json model_json(const ServedModel& model, const std::string& name) {
  Json json = {{"id", name},
               {"object", "model"},
               {"created", model.created},
               {"owned_by", "talon"},
               {"max_model_len", model.config().context}};
  if (model.pictures) json["talon"] = {{"pictures", pictures_json(model)}};
  return json;
}

Json whole_model_json(const ServedModel& model, const std::string& name) {
  Json json = model_json(model, name);
  if (!model.pictures) return json;
  const PromptChoices& choices = model.pictures->choices();
  Json& pictures = json["talon"]["pictures"];
  if (!choices.words.empty()) pictures["words"] = choices.words;
  if (!choices.class_names.empty()) pictures["class_names"] = choices.class_names;
  return json;
}

Json props_json(const ServedModel& model) {
  const Tokenizer* tokenizer = model.host->loaded().tokenizer_or_null();
  return {
      {"default_generation_settings", {{"n_ctx", model.config().context}}},
      {"model_alias", model.name},
      {"model_path", model.host->loaded().path.filename().string()},
      {"chat_template", tokenizer ? tokenizer->chat_template().value_or("") : ""},
      {"bos_token", tokenizer ? tokenizer->start_text() : ""},
      {"eos_token", tokenizer ? tokenizer->end_text() : ""},
      {"modalities", {{"vision", false}, {"audio", false}}},
      {"build_info", std::string(build_commit())},
      {"talon",
       {{"drafter", model.host->drafter()}, {"cache_positions", model.host->cache_positions()}}}};
}

Json load_json(const ServedModel& model) {
  const HostStatistics statistics = model.host->statistics();
  const EngineLoad& step = statistics.load;
  Json answers = Json::array();
  for (const JobProgress& job : statistics.jobs) answers.push_back(job_json(job));
  Json load = {{"model", model.name},
               {"running", statistics.running},
               {"waiting", statistics.waiting},
               {"kv_cache_usage", statistics.cache_used},
               {"preemptions", statistics.preemptions},
               {"steps", statistics.steps},
               {"answer_tokens", statistics.answer_tokens},
               {"last_step",
                {{"prompt_rows", step.prompt_rows},
                 {"text_rows", step.text_rows},
                 {"draft_rows", step.draft_rows},
                 {"most_rows", model.host->max_rows()}}},
               {"answers", std::move(answers)}};
  if (statistics.learning) load["learning"] = learning_json(*statistics.learning);
  return load;
}

}  // namespace talon
