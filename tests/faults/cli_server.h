#pragma once

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace talon::test {

/// A web server for one file, for as long as it lives: answers ranges, and can break off.
class FileServer {
 public:
  struct Behaviour {
    std::string body = {};
    std::string etag = "\"one\"";
    std::string type = {};        // its media type; empty: not said
    std::size_t break_after = 0;  // bytes after which longer bodies end; 0: never
    int breaks = 1;               // how many of them
    int status = 200;             // another: refuse with it
    /// Bodies by request target ("/a?b=1"); others get 404. Empty: `body` for every one.
    std::map<std::string, std::string> files = {};
    std::string token = {};  // wanted as "Authorization: Bearer TOKEN"; empty: none
    std::map<std::string, int> statuses = {};  // by request target: refuse with it
    int refusals = -1;                         // how many requests get one of them; -1: all
    std::string redirects_to = {};             // an address that every answer names; empty: none
    std::string host = "127.0.0.1";            // an address of this machine
    std::string silent_at = {};       // this request target gets no answer until the client leaves
    std::size_t most_of_a_range = 0;  // bytes that an answer to a range has; 0: all of it
    std::map<std::string, std::string> headers = {};  // of every answer, beside its own
    bool refuses_the_nameless = false;                // those that send no User-Agent, with 403
  };
  explicit FileServer(Behaviour behaviour);
  ~FileServer();
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  std::string url() const;
  std::string address() const;  // without a file
  /// The `Range` header of each request so far, empty without one.
  const std::vector<std::string>& ranges() const { return ranges_; }
  /// The request targets so far.
  const std::vector<std::string>& targets() const { return targets_; }
  /// Whether a client waits at `silent_at`, or has waited. May be asked at any time.
  bool was_silent() const { return silent_; }

 private:
  void serve();
  void answer(int connection);

  Behaviour behaviour_;
  std::vector<std::string> ranges_;  // read between requests only
  std::vector<std::string> targets_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> silent_{false};
  std::thread thread_;
};

}  // namespace talon::test
