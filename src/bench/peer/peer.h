#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "bench/spec/contestant.h"
#include "text/tokenizer.h"

namespace talon {

/// Another engine that answers the same questions, as a method of `talon bench spec`:
///   peer:llama.cpp[:SPECULATION]=PATH[#DRAFT]
///     llama-server or its folder; SPECULATION: its --spec-type, DRAFT: a GGUF file to draft with
///   peer:transformers[:SPECULATION]=PROGRAM[#DRAFT], peer:openvino[:SPECULATION]=PROGRAM[#DRAFT]
///     a program that starts such an engine and answers as llama-server does (bench/python_peer.py)
///   peer:openai=URL[#MODEL]
///     an endpoint with its version: http://127.0.0.1:8000/v1
/// @BUILD behind the engine's name tells several of its builds apart: peer:llama.cpp@source=PATH.
struct PeerChoice {
  enum class Kind { llama_cpp, adapter, openai } kind = Kind::llama_cpp;
  std::string name;         // "peer:llama.cpp", "peer:llama.cpp@source:ngram-simple", "peer:openai"
  std::string engine;       // "llama.cpp", "llama.cpp@source"
  std::string speculation;  // empty: plain decoding
  std::string place;        // path or URL
  std::string draft;        // file of a head or a draft model; empty: none
};

/// Whether a method is a peer.
bool is_peer(std::string_view method);
/// Throws UsageError naming the peer and what was expected.
PeerChoice parse_peer(std::string_view method);

/// What a peer is given. Borrowed.
struct PeerSetting {
  std::filesystem::path model;  // the file to load; those that are started read GGUF only
  const Tokenizer& tokenizer;
  int threads = 1;
  int context = 0;  // positions
};

/// Starts or finds the peer. It gets prompts as token ids, and Talon's sampler as settings of its
/// own (sampler_fields.h); a request with a setting that it does not have is a UsageError. Its
/// tokens are its own arithmetic's. Throws UsageError for a model it cannot read, Error if it does
/// not start.
std::unique_ptr<Contestant> make_peer(const PeerChoice& choice, const PeerSetting& setting);

/// What talks as llama-server does, and what talks as OpenAI's; `make_peer` chooses.
std::unique_ptr<Contestant> make_llama_peer(const PeerChoice& choice, const PeerSetting& setting);
std::unique_ptr<Contestant> make_openai_peer(const PeerChoice& choice, const PeerSetting& setting);

}  // namespace talon
