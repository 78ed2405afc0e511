#include <fstream>

#include "bench/spec.h"
#include "core/error.h"

namespace talon {
namespace {

Question parse_question(const std::string& text, const std::filesystem::path& file, int line) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    fail("read questions {}, line {}: expected a JSON object", file.string(), line);
  const auto turns = json.find("turns");
  if (turns == json.end() || !turns->is_array() || turns->empty()) {
    fail("read questions {}, line {}: expected \"turns\" with at least one text", file.string(),
         line);
  }
  Question question;
  question.id = json.value("question_id", Json(line));
  question.category =
      json.contains("category") && json["category"].is_string() ? json["category"] : "";
  for (const Json& turn : *turns) {
    if (!turn.is_string())
      fail("read questions {}, line {}: a turn is not a text", file.string(), line);
    question.turns.push_back(turn);
  }
  return question;
}

}  // namespace

std::vector<Question> read_questions(const std::filesystem::path& file, const std::string& category,
                                     int limit) {
  std::ifstream input(file);
  if (!input || std::filesystem::is_directory(file))
    fail("read questions: cannot open {}", file.string());
  std::vector<Question> questions;
  int line = 0;
  for (std::string text; std::getline(input, text);) {
    ++line;
    if (text.empty()) continue;
    if (limit > 0 && static_cast<int>(questions.size()) >= limit) break;
    Question question = parse_question(text, file, line);
    if (category.empty() || question.category == category) questions.push_back(std::move(question));
  }
  if (questions.empty()) {
    fail("read questions {}: expected at least one{}{}, found none", file.string(),
         category.empty() ? "" : " of category ", category);
  }
  return questions;
}

std::vector<std::string> split_methods(std::string_view list) {
  std::vector<std::string> methods;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view piece = list.substr(0, comma);
    const bool is_option = piece.find('=') < piece.find(':');
    if (is_option && !methods.empty()) {
      methods.back().append(",").append(piece);
    } else {
      methods.emplace_back(piece);
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return methods;
}

}  // namespace talon
