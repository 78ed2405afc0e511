#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/load_prompts.h"
#include "bench/peer/server_process.h"

namespace talon {

/// Who is asked under load:
///   METHOD  `talon serve` with that drafter, policy and rule
///   peer:llama.cpp[@BUILD][:SPECULATION]=PATH  llama-server or its folder
///   NAME=URL  an endpoint with its version that is running
struct LoadServerChoice {
  enum class Kind { talon, llama_cpp, endpoint } kind = Kind::talon;
  std::string name;
  std::string place;  // method, URL
  PeerChoice peer = {};
};
/// Throws UsageError.
LoadServerChoice parse_load_method(std::string_view method);
/// NAME=URL[#MODEL]. Throws UsageError.
LoadServerChoice parse_load_url(std::string_view text);

/// Positions of each slot of a server that is started: room for the longest request, `asked`, and
/// what a number in front of a question adds to it, within the model's `most`.
int slot_positions(int asked, int most);

/// What servers are started with. Borrowed.
struct LoadSetting {
  std::vector<std::string> talon;  // `talon serve` with its model and flags
  PeerSetting peer;
  int slots = 1;  // most answers at once
};

/// A server that is ready for requests. Requests may come from several threads.
class LoadServer {
 public:
  /// Starts or finds it. Throws Error naming it if it does not answer.
  LoadServer(const LoadServerChoice& choice, const LoadSetting& setting);

  const std::string& name() const { return choice_.name; }
  /// Whether its texts must be those of plain decoding in Talon: it says that it is one.
  bool claims_same_texts() const { return claims_; }
  std::string completions_url() const { return base_ + "/completions"; }
  Json body_of(const LoadPrompt& prompt, const SamplerOptions& sampler) const;
  /// Why it has ended, if it has and was started here.
  std::optional<std::string> problem();

 private:
  void learn_model();

  LoadServerChoice choice_;
  std::unique_ptr<ServerProcess> process_;
  std::string base_;  // "http://127.0.0.1:8080/v1"
  std::string model_;
  bool claims_ = false;
  bool takes_ids_ = true;
};

}  // namespace talon
