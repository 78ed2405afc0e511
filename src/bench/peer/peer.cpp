#include "bench/peer/peer.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "core/error.h"

namespace talon {
namespace {

constexpr std::string_view kPeer = "peer:";
constexpr std::string_view kLlama = "llama.cpp";
constexpr std::string_view kAdapters[] = {"transformers", "openvino"};
constexpr std::string_view kOpenai = "openai";

/// What ENGINE[@BUILD][:SPECULATION] says.
struct EngineText {
  std::string_view program;
  std::string_view with_build;
  std::string_view speculation;
};

bool is_build_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
}

/// No program for a part that is empty, and for a build that is no word or stands behind the
/// speculation.
EngineText parse_engine(std::string_view text) {
  EngineText engine;
  const std::size_t colon = text.find(':');
  engine.with_build = text.substr(0, colon);
  if (colon != text.npos) engine.speculation = text.substr(colon + 1);
  const std::size_t at = engine.with_build.find('@');
  const bool has_build = at != text.npos;
  const std::string_view build = has_build ? engine.with_build.substr(at + 1) : "";
  const bool is_well_formed = !text.ends_with(':') && has_build == !build.empty() &&
                              std::ranges::all_of(build, is_build_character) &&
                              engine.speculation.find('@') == text.npos;
  if (is_well_formed) engine.program = engine.with_build.substr(0, at);
  return engine;
}

/// The kind of peer, if there is one of that name.
std::optional<PeerChoice::Kind> kind_of(const EngineText& engine) {
  if (engine.program == kLlama) return PeerChoice::Kind::llama_cpp;
  if (std::ranges::find(kAdapters, engine.program) != std::end(kAdapters))
    return PeerChoice::Kind::adapter;
  if (engine.program == kOpenai && engine.speculation.empty()) return PeerChoice::Kind::openai;
  return std::nullopt;
}

const char* place_of(PeerChoice::Kind kind) {
  switch (kind) {
    case PeerChoice::Kind::openai:
      return "=URL";
    case PeerChoice::Kind::adapter:
      return "=PATH of a program that starts it";
    case PeerChoice::Kind::llama_cpp:
      break;
  }
  return "=PATH of llama-server";
}

/// Takes #DRAFT off the place.
void take_draft(std::string_view method, PeerChoice& peer) {
  const std::size_t hash = peer.place.rfind('#');
  if (hash == peer.place.npos) return;
  peer.draft = peer.place.substr(hash + 1);
  peer.place.resize(hash);
  if (!peer.draft.empty() && !peer.speculation.empty()) return;
  throw UsageError(
      fmt::format("method \"{}\": expected {}:SPECULATION=PATH#DRAFT, with the type of "
                  "speculation and the file that it drafts with",
                  method, std::string(kPeer) + peer.engine));
}

}  // namespace

bool is_peer(std::string_view method) { return method.starts_with(kPeer); }

PeerChoice parse_peer(std::string_view method) {
  const std::string_view name = method.substr(0, method.find('='));
  EngineText engine;
  if (is_peer(name)) engine = parse_engine(name.substr(kPeer.size()));
  const std::optional<PeerChoice::Kind> kind = kind_of(engine);
  if (!kind) {
    throw UsageError(
        fmt::format("method \"{}\": expected peer:llama.cpp[@BUILD]=PATH, "
                    "peer:llama.cpp[@BUILD]:SPECULATION=PATH[#DRAFT], the same of "
                    "peer:transformers or peer:openvino, or peer:openai[@BUILD]=URL",
                    method));
  }
  PeerChoice peer;
  peer.kind = *kind;
  peer.name = name;
  peer.engine = engine.with_build;
  peer.speculation = engine.speculation;
  if (name.size() < method.size()) peer.place = method.substr(name.size() + 1);
  if (*kind != PeerChoice::Kind::openai) take_draft(method, peer);
  if (peer.place.empty()) {
    throw UsageError(
        fmt::format("method \"{}\": expected {} behind the name", method, place_of(*kind)));
  }
  return peer;
}

std::unique_ptr<Contestant> make_peer(const PeerChoice& choice, const PeerSetting& setting) {
  return choice.kind == PeerChoice::Kind::openai ? make_openai_peer(choice, setting)
                                                 : make_llama_peer(choice, setting);
}

}  // namespace talon
