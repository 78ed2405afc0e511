#include "test_server.h"

#include <chrono>
#include <thread>

#include "runtime/cache_budget.h"
#include "serve/api/answer_fields.h"
#include "serve/tools/tool_fields.h"
#include "text/prompt.h"

namespace talon::test {
namespace {

constexpr const char* kTemplate =
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

template <typename Condition>
bool comes_true(Condition&& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

ModelSource tiny_model() {
  ModelSource source;
  source.model = TALON_TEST_DATA "/models/stories260K.bin";
  source.threads = 2;
  return source;
}

ServedModel tiny_served(const TestServer::Options& options) {
  LoadedModel loaded = open_model(tiny_model());
  auto cache = open_cache(loaded.model, {.bytes = options.cache_bytes});
  HostOptions host;
  host.decode.drafter = options.drafter;
  host.queue = options.queue;
  host.step_ms = 20;
  host.learn = options.learn;
  ServedModel model;
  model.name = "tiny";
  model.other_names = options.other_names;
  const std::string source =
      options.chat_template.empty() ? std::string(kTemplate) : options.chat_template;
  if (options.has_chat) model.chat.emplace(source, "", "");
  if (!options.tool_template.empty()) model.tool_chat.emplace(options.tool_template, "", "");
  model.host = std::make_unique<ModelHost>(std::move(loaded), std::move(cache), std::move(host));
  return model;
}

TestServer::TestServer(Options options, std::nullptr_t) {
  std::vector<ServedModel> models;
  models.push_back(tiny_served(options));
  server_ = std::make_unique<Server>(options, std::move(models));
}

bool TestServer::becomes_idle() const {
  return comes_true([&] { return server_->idle(); });
}

bool TestServer::load_becomes(int wanted) const {
  return comes_true([&] { return load() == wanted; });
}

std::string plain_text(const Json& fields) {
  struct Plain {
    LoadedModel loaded = open_model(tiny_model());
    std::unique_ptr<KvCache> cache = open_cache(loaded.model);
    GrammarCompiler compiler{*loaded.tokenizer, loaded.model.config.vocabulary};
    Answerer answerer{loaded.model, *cache, loaded.tokenizer_or_null(), {.drafter = "none"}};
  };
  static Plain plain;
  const LoadedModel& loaded = plain.loaded;
  const int vocabulary = loaded.model.config.vocabulary;
  const AnswerFields read = read_answer_fields(Fields(fields), {}, vocabulary);
  Request request;
  request.prompt = encode_prompt(*loaded.tokenizer, fields["prompt"].get<std::string>());
  request.max_new = read.max_new.value_or(16);
  request.min_new = read.min_new;
  request.sampler = read.sampler;
  request.seed = read.seed;
  request.stop_texts = read.stop_texts;
  if (!read.ignore_end) request.end_tokens = loaded.end_tokens;
  request.reuse_prefix = false;
  const OrderedJson body = OrderedJson::parse(fields.dump());
  if (const auto grammar = read_grammar(Fields(fields), body, {})) {
    request.constraint = plain.compiler.compile(grammar->text);
  }
  return plain.answerer.decode(request).text;
}

}  // namespace talon::test
