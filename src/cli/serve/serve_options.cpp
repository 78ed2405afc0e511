#include "cli/serve/serve_options.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "cli/options/draft_options.h"
#include "cli/options/prompt_options.h"
#include "core/error.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr const char* kServerGroup = "Server";
constexpr const char* kLimitGroup = "Limits of a request";

/// What browsers send as Origin: `*`, `null` or SCHEME://HOST[:PORT]. It becomes part of headers.
std::string checked_origin(const std::string& given) {
  const auto is_word = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return c > ' ' && c <= '~' && c != '/' && c != ',';
    });
  };
  const std::size_t scheme = given.find("://");
  const bool is_origin = scheme != std::string::npos && is_word(given.substr(0, scheme)) &&
                         is_word(given.substr(scheme + 3));
  if (is_origin || given == "*" || given == "null") return given;
  throw UsageError(
      fmt::format("--cors: expected * or SCHEME://HOST[:PORT], found {}", quote(given)));
}

void add_address_flags(CLI::App& app, HttpOptions& http) {
  app.add_option("--host", http.host, "address to listen on")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->group(kServerGroup);
  CLI::Option* port =
      add_int(app, "--port", http.port, 0, 65535, "0: any that is free")->group(kServerGroup);
  app.add_option("--unix", http.unix_path, "listen on a socket in the file system instead")
      ->type_name("PATH")
      ->check(no_empty_text)
      ->excludes(port)
      ->group(kServerGroup);
  const auto set_cors = [&http](const std::string& given) { http.cors = checked_origin(given); };
  app.add_option_function<std::string>(
         "--cors", set_cors,
         "origin whose pages browsers may let call the server; *: any (default: only the server's "
         "own)")
      ->type_name("ORIGIN")
      ->group(kServerGroup);
}

void add_bytes(CLI::App& app, const std::string& name, std::size_t& bytes, const char* help) {
  const auto parse = [&bytes, name](const std::string& text) {
    bytes = static_cast<std::size_t>(parse_int(name, text, 1, 1 << 20)) << 10;
  };
  app.add_option_function<std::string>(name, parse, help)
      ->type_name("KIB")
      ->default_str(fmt::format("{}", bytes >> 10))
      ->group(kLimitGroup);
}

void add_limit_flags(CLI::App& app, ServeCommandOptions& options) {
  HttpLimits& http = options.server.http.limits;
  RequestLimits& limits = options.server.limits;
  add_bytes(app, "--max-body-kb", http.body_bytes, "most of a request's body");
  add_bytes(app, "--max-header-kb", http.header_bytes, "most of its headers");
  add_bytes(app, "--max-unread-kb", limits.unread_bytes,
            "most of an answer that its client has not taken; more ends it");
  const auto seconds = [&](const char* name, double& value, const char* help) {
    add_real(app, name, value, 0.1, 86400, help)->group(kLimitGroup);
  };
  seconds("--header-s", http.header_s, "longest wait for a request's headers");
  seconds("--body-s", http.body_s, "longest wait for its body after that");
  seconds("--write-s", http.write_s, "longest wait for a client that takes nothing");
  seconds("--idle-s", http.idle_s, "longest wait for the next request of a connection");
  const auto count = [&](const char* name, int& value, int least, const char* help) {
    add_int(app, name, value, least, 1 << 24, help)->group(kLimitGroup);
  };
  count("--connections", http.connections, 1,
        "most at a time; then the one that is idle longest gives way");
  count("--queue", options.server.queue, 1, "most answers that wait for their first token");
  count("--max-messages", limits.messages, 1, "of a chat");
  count("--max-prompt-tokens", limits.prompt_tokens, 0, "0: what context and cache hold");
  count("--max-n", limits.choices, 1, "answers to one prompt");
  count("--max-stop", limits.stop_texts, 0, "stop texts");
  count("--max-logit-bias", limits.logit_bias, 0, "entries of logit_bias");
  add_bytes(app, "--max-grammar-kb", limits.grammar_bytes,
            "of a schema or grammar, and of the schemas of all tools");
}

void add_learn_flags(CLI::App& app, ServeCommandOptions& options) {
  const char* group = "Learning";
  auto* learn =
      app.add_option(
             "--learn", options.learn_folder,
             "train the draft head on the answers that are given, while nobody is served, and "
             "use it where it is measured better; all that is kept lies in this folder")
          ->type_name("FOLDER")
          ->check(no_empty_text)
          ->group(group);
  app.add_option("--learn-keep", options.learn_keep,
                 "answers to ordinary questions (of talon train data), which the head is not to "
                 "forget; copied when the folder is new")
      ->type_name("FOLDER")
      ->needs(learn)
      ->group(group);
  add_real(app, "--learn-share", options.learn_share, 0.01, 1,
           "of the processors' time, while nobody is served")
      ->needs(learn)
      ->group(group);
  add_int(app, "--learn-tokens", options.learn_tokens, 100, 1 << 30,
          "new tokens of answers before the head learns from them")
      ->needs(learn)
      ->group(group);
  add_int(app, "--learn-room-mb", options.learn_room_mb, 16, 1 << 20,
          "of the disk for answers; the oldest go")
      ->needs(learn)
      ->group(group);
}

/// The last part of a path, which may end in a slash; of a file without its extension.
std::string last_name(const std::string& model) {
  std::filesystem::path path(model);
  if (!path.has_filename()) path = path.parent_path();
  const bool is_file = path.extension() == ".gguf" || path.extension() == ".bin";
  const std::string name = (is_file ? path.stem() : path.filename()).string();
  return name.empty() ? model : name;
}

/// NAME[,NAME...]=MODEL or MODEL.
NamedModel named_model(const std::string& given) {
  const std::size_t equals = given.find('=');
  const bool has_name = equals != std::string::npos && given.find('/') > equals;
  if (!has_name) return {{last_name(given)}, given};
  NamedModel named;
  named.model = given.substr(equals + 1);
  std::istringstream names(given.substr(0, equals) + ",");
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty()) {
      throw UsageError(fmt::format("-m: expected NAME[,NAME...]=MODEL, found {}", quote(given)));
    }
    named.names.push_back(name);
  }
  return named;
}

}  // namespace

void add_serve_flags(CLI::App& app, ServeCommandOptions& options) {
  app.add_option("-m,--model", options.models,
                 fmt::format("{}; NAME=MODEL to serve it under another name, NAME,NAME=MODEL under "
                             "several; may be given several times",
                             kModelWords))
      ->required()
      ->type_name("[NAME[,NAME...]=]MODEL")
      ->group("Model and backend");
  add_models_folder_flag(app, options.model.models_folder);
  app.add_option("--vq", options.vq,
                 "the tokenizer of a model that draws pictures (default: vq.safetensors beside it)")
      ->type_name("FILE")
      ->group("Model and backend");
  add_cells_flag(app, options.model);
  add_address_flags(app, options.server.http);
  app.add_option("--api-key", options.server.api_keys,
                 "requests must carry it (Authorization: Bearer KEY, or x-api-key)")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->group(kServerGroup);
  app.add_option("--api-key-file", options.key_file, "a file with keys, a line each")
      ->type_name("FILE")
      ->check(no_empty_text)  // else a server that was to have keys has none
      ->group(kServerGroup);
  add_real(app, "--drain-s", options.drain_s, 0, 86400,
           "seconds that running answers have after SIGTERM, SIGHUP or Ctrl-C; a second signal "
           "ends at once")
      ->group(kServerGroup);
  add_real(app, "--ping-s", options.server.http.ping_s, 0, 86400,
           "seconds of silence in a stream before a line that its reader passes over, so that "
           "nobody takes the connection for dead; 0: never")
      ->group(kServerGroup);
  add_real(app, "--step-ms", options.step_ms, -1, 60000,
           "about how long a step with prompts may take while others answer; 0: no limit, -1: ten "
           "times what a token takes")
      ->group(kServerGroup);
  app.add_flag("--spec-metrics", options.server.returns_metrics,
               "metrics.speculative_decoding in every answer")
      ->group(kServerGroup);
  app.add_flag_callback(
         "--no-page", [&options] { options.server.has_page = false; },
         "without the page for people at /")
      ->group(kServerGroup);
  add_limit_flags(app, options);
  add_learn_flags(app, options);
  add_drafter_flag(app, options.decode);
  add_decode_flags(app, options.decode);
  add_backend_flags(app, options.model);
}

std::vector<NamedModel> named_models(const std::vector<std::string>& models) {
  std::vector<NamedModel> all;
  std::set<std::string> taken;
  for (const std::string& given : models) {
    all.push_back(named_model(given));
    for (const std::string& name : all.back().names) {
      if (taken.insert(name).second) continue;
      throw UsageError(
          fmt::format("-m: expected another name for each model, found {} twice", name));
    }
  }
  return all;
}

std::vector<std::string> api_keys(const ServeCommandOptions& options) {
  std::vector<std::string> keys = options.server.api_keys;
  if (!options.key_file.empty()) {
    std::istringstream lines(read_text_file(options.key_file));
    for (std::string line; std::getline(lines, line);) {
      constexpr const char* kSpaces = " \t\r\v\f";
      const std::size_t begin = line.find_first_not_of(kSpaces);
      if (begin == std::string::npos) continue;
      keys.push_back(line.substr(begin, line.find_last_not_of(kSpaces) + 1 - begin));
    }
    if (keys.empty())
      fail("--api-key-file {}: expected a key a line, found none", options.key_file);
  }
  for (const std::string& key : keys) {
    if (key.empty()) throw UsageError("--api-key: expected a key, found an empty one");
  }
  return keys;
}

}  // namespace talon
