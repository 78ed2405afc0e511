#include "train/data/prompt_file.h"

#include <algorithm>

#include "core/error.h"
#include "io/codec/zstd.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "train/data/dataset.h"
#include "train/data/temperature_mix.h"

namespace talon {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 30;

std::string read_all(const std::filesystem::path& file) {
  if (file.extension() == ".zst") return read_zstd(file, kMostBytes);
  return std::string(MappedFile(file).text());
}

std::string text_of(const Json& line, const char* key, const std::string& where) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_string()) fail("{}: expected a text \"{}\"", where, key);
  return *found;
}

std::string text_or(const Json& line, const char* key, const std::string& where,
                    const char* otherwise) {
  return line.contains(key) ? text_of(line, key, where) : otherwise;
}

std::vector<TokenId> tokens_of(const Json& line, const char* key, const std::string& where,
                               int vocabulary) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_array() || found->empty()) {
    fail("{}: expected \"{}\", a list of token ids", where, key);
  }
  std::vector<TokenId> tokens;
  for (const Json& id : *found) {
    if (!id.is_number_integer() || id < 0 || id >= vocabulary) {
      fail("{}: \"{}\": expected ids from 0 to {}, found {}", where, key, vocabulary - 1,
           id.dump());
    }
    tokens.push_back(id);
  }
  return tokens;
}

std::vector<ReadyResponse> responses_of_folder(const std::filesystem::path& folder,
                                               int vocabulary) {
  const Dataset data(folder);
  if (data.info().vocabulary != vocabulary) {
    fail("read {}: expected answers of a model with {} tokens, found {} tokens",
         quote(folder.string()), vocabulary, data.info().vocabulary);
  }
  std::vector<ReadyResponse> responses;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Conversation from = data.read(i);
    const auto begin = static_cast<std::size_t>(from.response_begin);
    const auto prompt = from.tokens.first(begin), response = from.tokens.subspan(begin);
    responses.push_back({{prompt.begin(), prompt.end()},
                         {response.begin(), response.end()},
                         from.temperature,
                         from.source});
  }
  return responses;
}

}  // namespace

void read_json_lines(const std::filesystem::path& file,
                     const std::function<void(const Json& line, const std::string& where)>& line) {
  const std::string text = read_all(file);
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view piece = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (piece.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("read {}, line {}", quote(file.string()), number);
    const Json json = parse_json(piece, where);
    if (!json.is_object()) fail("{}: expected a JSON object", where);
    line(json, where);
  }
}

std::vector<Prompt> read_prompts(const std::filesystem::path& file) {
  std::vector<Prompt> prompts;
  read_json_lines(file, [&](const Json& line, const std::string& where) {
    prompts.push_back({text_of(line, "prompt", where), text_or(line, "source", where, "unknown"),
                       text_or(line, "licence", where, "unknown")});
  });
  return prompts;
}

std::vector<ReadyResponse> read_responses(const std::filesystem::path& path, int vocabulary) {
  if (std::filesystem::is_directory(path)) return responses_of_folder(path, vocabulary);
  std::vector<ReadyResponse> responses;
  read_json_lines(path, [&](const Json& line, const std::string& where) {
    const auto temperature = line.find("temperature");
    if (temperature == line.end() || !temperature->is_number() || *temperature < 0 ||
        *temperature > kMostTemperature) {
      fail("{}: expected \"temperature\", a number from 0 to {}", where, kMostTemperature);
    }
    responses.push_back({tokens_of(line, "prompt_ids", where, vocabulary),
                         tokens_of(line, "response_ids", where, vocabulary), *temperature,
                         text_or(line, "source", where, "unknown")});
  });
  return responses;
}

std::vector<std::string> read_questions_held_out(const std::filesystem::path& file) {
  std::vector<std::string> texts;
  read_json_lines(file, [&](const Json& line, const std::string& where) {
    const auto turns = line.find("turns");
    if (turns == line.end()) {
      texts.push_back(text_of(line, "prompt", where));
      return;
    }
    if (!turns->is_array()) fail("{}: expected \"turns\", a list of texts", where);
    for (const Json& turn : *turns) {
      if (!turn.is_string()) fail("{}: expected \"turns\", a list of texts", where);
      texts.push_back(turn);
    }
  });
  return texts;
}

}  // namespace talon
