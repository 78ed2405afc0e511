#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client.h"
#include "runtime/answerer.h"
#include "runtime/loaded_model.h"
#include "serve/server.h"

namespace talon::test {

/// A template that writes tools and calls as Hermes and Qwen do.
inline constexpr const char* kHermes =
    "{% if tools %}tools: {% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}"
    "</tool_call>{% endfor %}\n{% endfor %}assistant:";

/// A server of one small model ("tiny" and `other_names`, which takes chats as `role: content`
/// lines) on a port of its own.
class TestServer {
 public:
  struct Options : ServeOptions {
    Options() {
      http.port = 0;
      http.ping_s = 0;  // a stream is the same on a slow machine
    }
    std::vector<std::string> other_names = {};
    std::string drafter = "suffix";
    std::size_t cache_bytes = 0;
    bool has_chat = true;
    std::string chat_template;  // empty: `role: content` lines
    std::string tool_template;  // empty: the same
    std::optional<LearnOptions> learn;
  };
  explicit TestServer(Options options = Options()) : TestServer(std::move(options), nullptr) {}

  Server& operator*() { return *server_; }
  Server* operator->() { return server_.get(); }
  int port() const { return server_->port(); }

  /// Of a new connection.
  Reply get(const std::string& path, const std::string& headers = "") const {
    return Client(port()).get(path, headers);
  }
  Reply post(const std::string& path, const Json& body) const {
    return Client(port()).post(path, body);
  }
  /// Waits until nothing runs; false if that takes too long.
  bool becomes_idle() const;
  /// Running and waiting answers.
  int load() const { return get("/v1/load").json()["server_load"]; }
  bool load_becomes(int wanted) const;

 private:
  TestServer(Options options, std::nullptr_t);

  std::unique_ptr<Server> server_;
};

ModelSource tiny_model();
/// The model of such a server, without metrics.
ServedModel tiny_served(const TestServer::Options& options);

/// What the same request gives alone, in process and without drafts. `fields`: of a completion.
std::string plain_text(const Json& fields);

}  // namespace talon::test
