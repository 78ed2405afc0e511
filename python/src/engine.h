#pragma once

#include <string_view>
#include <type_traits>

#include "c/turns.h"
#include "model.h"

namespace talon::python {

inline nb::dict statistics_of(const talon_statistics& from) {
  nb::dict all;
  all["prompt_tokens"] = from.prompt_tokens;
  all["reused_tokens"] = from.reused_tokens;
  all["answer_tokens"] = from.answer_tokens;
  all["rounds"] = from.rounds;
  all["accepted_tokens"] = from.accepted_tokens;
  all["drafted_tokens"] = from.drafted_tokens;
  all["preemptions"] = from.preemptions;
  all["tau"] = from.tau;
  all["tokens_per_second"] = from.tokens_per_second;
  all["waiting_ms"] = from.waiting_ms;
  all["prefill_ms"] = from.prefill_ms;
  all["decode_ms"] = from.decode_ms;
  all["draft_ms"] = from.draft_ms;
  all["check_ms"] = from.check_ms;
  all["distortion"] = from.distortion;
  return all;
}

/// News of one round, kept until Python takes them.
struct News {
  std::uint64_t request;
  std::vector<std::int32_t> tokens;
  int accepted;
  std::string text;
  int finish;
  std::string error;
  std::vector<double> logprobs;
  std::vector<std::vector<std::pair<std::int32_t, double>>> top;
  talon_statistics statistics;
};

struct Round {
  std::uint64_t request;
  int round, position;
  std::vector<std::int32_t> tokens, parents;
  std::vector<float> log_p;
  std::vector<std::int32_t> accepted, emitted;
  double draft_ms, check_ms;
};

class Engine {
 public:
  Engine(const Model& model, const std::string& method, std::uint64_t cache_bytes,
         const std::vector<std::string>& head_folders,
         const std::optional<std::string>& costs_folder) {
    std::vector<const char*> folders;
    for (const std::string& folder : head_folders) folders.push_back(folder.c_str());
    const char* none = nullptr;
    talon_engine_options options = talon_engine_default();
    options.method = method.c_str();
    options.cache_bytes = cache_bytes;
    options.head_folders = folders.empty() ? &none : folders.data();
    options.head_folder_count = folders.size();
    options.costs_folder = costs_folder ? costs_folder->c_str() : nullptr;
    options.round = note_round;
    options.round_user = this;
    options.log = note_log;
    options.log_user = this;
    talon_status status = TALON_OK;
    {
      const WithoutLock free;
      status = talon_engine_new(model.get(), &options, &engine_);
    }
    check(status);
  }
  ~Engine() {
    const WithoutLock free;
    talon_engine_free(engine_);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::string drafter() const { return talon_engine_drafter(engine_); }

  std::uint64_t submit(const Ids& prompt, const nb::dict& fields) {
    talon_request request = talon_request_default();
    request.prompt = prompt.data();
    request.prompt_count = prompt.size();
    Borrowed borrowed;
    for (const auto& [key, value] : fields) {
      const auto name = nb::cast<std::string>(key);
      try {
        set(request, borrowed, name, value);
      } catch (const nb::cast_error&) {
        refuse(name, value);
      }
    }
    std::uint64_t id = 0;
    talon_status status = TALON_OK;
    {
      const WithoutLock free;
      status = talon_engine_submit(engine_, &request, &id);
    }
    if (status != TALON_OK) throw StatusFailure{status, naming_form(borrowed.form)};
    return id;
  }

  /// One forward, without the interpreter's lock.
  std::vector<News> step() {
    std::vector<News> all;
    talon_status status = TALON_OK;
    {
      const WithoutLock free;
      status = talon_engine_step(engine_, note_news, &all);
    }
    check(status);
    return all;
  }

  void cancel(std::uint64_t id) { check(talon_engine_cancel(engine_, id)); }

  void keep_rounds(bool keep) { keeps_rounds_ = keep; }
  std::vector<Round> take_rounds() { return std::exchange(rounds_, {}); }
  /// What the library has noted since: levels and texts.
  nb::list take_notes() {
    nb::list all;
    for (const auto& [level, text] : std::exchange(notes_, {})) {
      all.append(nb::make_tuple(level, nb::bytes(text.data(), text.size())));
    }
    return all;
  }

 private:
  /// What a request points to.
  struct Borrowed {
    std::string method;
    std::string form, form_text;  // the key that asks for it
    std::vector<std::string> stop_texts;
    std::vector<const char*> stop_pointers;
    std::vector<std::int32_t> bias_tokens, banned, end_tokens, expected;
    std::vector<float> bias_values;
  };

  /// The talon_form that a field asks for.
  static std::int32_t form_of(const std::string& key) {
    if (key == "json_schema") return TALON_FORM_JSON_SCHEMA;
    if (key == "regex") return TALON_FORM_REGEX;
    if (key == "grammar") return TALON_FORM_GRAMMAR;
    return key == "choices" ? TALON_FORM_CHOICE : TALON_FORM_NONE;
  }

  /// The last error, with the field that asked for a form instead of those that say it.
  static std::string naming_form(const std::string& form) {
    std::string message = talon_last_error();
    for (const std::string_view field : {"request->form_text:", "request->form:"}) {
      const std::size_t at = form.empty() ? std::string::npos : message.find(field);
      if (at != std::string::npos) return message.replace(at, field.size(), form + ":");
    }
    return message;
  }

  /// What `set` takes for a field.
  static const char* expected(const std::string& key) {
    if (key == "drafter" || form_of(key) != TALON_FORM_NONE) return "a text";
    if (key == "stop") return "a text or a list of texts";
    if (key == "banned" || key == "end_tokens" || key == "expected") return "a list of token ids";
    if (key == "logit_bias") return "a dictionary of numbers by token id";
    if (key == "ignore_end" || key == "reuse_prefix") return "True or False";
    for (const char* real : {"temperature", "top_p", "min_p", "typical_p", "repetition_penalty",
                             "presence_penalty", "frequency_penalty", "deadline_ms"}) {
      if (key == real) return "a number";
    }
    return "a whole number that fits";
  }

  [[noreturn]] static void refuse(const std::string& key, nb::handle value) {
    const std::string found = nb::repr(value).c_str();
    throw StatusFailure{TALON_BAD_ARGUMENT,
                        key + ": expected " + expected(key) + ", found " + found};
  }

  /// What is no whole number itself, such as 2.5 of numpy or "2", would be cut off or read as one.
  static void require_whole(const std::string& key, nb::handle value) {
    if (!PyIndex_Check(value.ptr())) refuse(key, value);
  }

  static std::vector<std::int32_t> ids_of(const std::string& key, nb::handle value) {
    std::vector<std::int32_t> ids;
    for (const nb::object& id : nb::cast<std::vector<nb::object>>(value)) {
      require_whole(key, id);
      ids.push_back(nb::cast<std::int32_t>(id));
    }
    return ids;
  }

  static void set(talon_request& request, Borrowed& to, const std::string& key, nb::handle value) {
    const auto number = [&](auto& field) {
      using Field = std::remove_reference_t<decltype(field)>;
      if constexpr (std::is_integral_v<Field>) require_whole(key, value);
      field = nb::cast<Field>(value);
    };
    if (key == "max_new") return number(request.max_new);
    if (key == "min_new") return number(request.min_new);
    if (key == "seed") return number(request.seed);
    if (key == "choice") return number(request.choice);
    if (key == "top_k") return number(request.top_k);
    if (key == "temperature") return number(request.temperature);
    if (key == "top_p") return number(request.top_p);
    if (key == "min_p") return number(request.min_p);
    if (key == "typical_p") return number(request.typical_p);
    if (key == "repetition_penalty") return number(request.repetition_penalty);
    if (key == "presence_penalty") return number(request.presence_penalty);
    if (key == "frequency_penalty") return number(request.frequency_penalty);
    if (key == "penalty_window") return number(request.penalty_window);
    if (key == "priority") return number(request.priority);
    if (key == "tenant") return number(request.tenant);
    if (key == "logprobs") return number(request.logprobs);
    if (key == "deadline_ms") return number(request.deadline_ms);
    if (key == "ignore_end") return void(request.ignore_end = nb::cast<bool>(value) ? 1 : 0);
    if (key == "reuse_prefix") return void(request.reuse_prefix = nb::cast<bool>(value) ? 1 : 0);
    if (key == "drafter") {
      to.method = nb::cast<std::string>(value);
      request.method = to.method.c_str();
    } else if (const std::int32_t form = form_of(key); form != TALON_FORM_NONE) {
      to.form = key;
      to.form_text = nb::cast<std::string>(value);
      request.form = form;
      request.form_text = to.form_text.c_str();
    } else if (key == "stop") {
      to.stop_texts = nb::cast<std::vector<std::string>>(value);
      for (const std::string& text : to.stop_texts) to.stop_pointers.push_back(text.c_str());
      request.stop_texts = to.stop_pointers.data();
      request.stop_text_count = to.stop_pointers.size();
    } else if (key == "banned") {
      to.banned = ids_of(key, value);
      request.banned = to.banned.data();
      request.banned_count = to.banned.size();
    } else if (key == "end_tokens") {
      to.end_tokens = ids_of(key, value);
      request.end_tokens = to.end_tokens.data();
      request.end_token_count = to.end_tokens.size();
    } else if (key == "expected") {
      to.expected = ids_of(key, value);
      request.expected = to.expected.data();
      request.expected_count = to.expected.size();
    } else if (key == "logit_bias") {
      for (const auto& [token, bias] : nb::cast<nb::dict>(value)) {
        require_whole(key, token);
        to.bias_tokens.push_back(nb::cast<std::int32_t>(token));
        to.bias_values.push_back(nb::cast<float>(bias));
      }
      request.bias_tokens = to.bias_tokens.data();
      request.bias_values = to.bias_values.data();
      request.bias_count = to.bias_tokens.size();
    } else {
      throw StatusFailure{TALON_BAD_ARGUMENT,
                          key + ": expected a field of a request, found another"};
    }
  }

  static int note_news(void* user, const talon_news* news) {
    News noted{news->request,
               {news->tokens, news->tokens + news->token_count},
               news->accepted,
               {news->text, news->text_bytes},
               news->finish,
               news->error,
               {},
               {},
               *news->statistics};
    for (std::size_t i = 0; news->token_logprobs && i < news->token_count; ++i) {
      noted.logprobs.push_back(news->token_logprobs[i]);
      auto& top = noted.top.emplace_back();
      for (std::size_t k = 0; k < news->top_count; ++k) {
        const talon_logprob& one = news->top[i * news->top_count + k];
        top.emplace_back(one.token, one.log_p);
      }
    }
    static_cast<std::vector<News>*>(user)->push_back(std::move(noted));
    return 0;
  }

  static void note_round(void* user, const talon_round* round) {
    auto& self = *static_cast<Engine*>(user);
    if (!self.keeps_rounds_) return;
    self.rounds_.push_back({round->request,
                            round->round,
                            round->position,
                            {round->tokens, round->tokens + round->node_count},
                            {round->parents, round->parents + round->node_count},
                            {round->log_p, round->log_p + round->node_count},
                            {round->accepted, round->accepted + round->accepted_count},
                            {round->emitted, round->emitted + round->emitted_count},
                            round->draft_ms,
                            round->check_ms});
  }

  static void note_log(void* user, talon_log_level level, const char* text) {
    static_cast<Engine*>(user)->notes_.emplace_back(level, text);
  }

  talon_engine* engine_ = nullptr;
  std::vector<Round> rounds_;
  std::vector<std::pair<int, std::string>> notes_;
  bool keeps_rounds_ = false;
};

}  // namespace talon::python
