// Splits English text into the pieces that BERT's vocabulary knows.
#ifndef EXAMPLES_02_MINILM_WORDPIECE_H_
#define EXAMPLES_02_MINILM_WORDPIECE_H_

#include <cctype>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

// Text in ASCII gets the ids of the original tokenizer; other bytes become unknown words.
class WordPiece {
 public:
  // Reads a vocab.txt: one piece a line, the line's number is its id. Throws std::runtime_error.
  explicit WordPiece(const std::string& vocabulary_path) {
    std::ifstream file(vocabulary_path);
    if (!file) throw std::runtime_error("cannot read the vocabulary " + vocabulary_path);
    for (std::string piece; std::getline(file, piece);) {
      ids_.emplace(piece, static_cast<int64_t>(ids_.size()));
    }
  }

  // [CLS], the pieces, [SEP]; at most `limit` ids.
  std::vector<int64_t> encode(const std::string& text, size_t limit) const {
    std::vector<int64_t> ids = {id("[CLS]")};
    for (const std::string& word : words(text)) append_pieces(word, &ids);
    if (ids.size() > limit - 1) ids.resize(limit - 1);
    ids.push_back(id("[SEP]"));
    return ids;
  }

 private:
  int64_t id(const std::string& piece) const { return ids_.at(piece); }

  // Lower-case words; each punctuation mark is a word of its own.
  static std::vector<std::string> words(const std::string& text) {
    std::vector<std::string> found;
    bool inside = false;
    for (const char raw : text) {
      const auto c = static_cast<unsigned char>(raw);
      if (std::isspace(c) || std::ispunct(c)) {
        if (std::ispunct(c)) found.emplace_back(1, raw);
        inside = false;
        continue;
      }
      if (!inside) found.emplace_back();
      found.back().push_back(static_cast<char>(std::tolower(c)));
      inside = true;
    }
    return found;
  }

  // The longest known piece first, then the longest continuation ("##ing"), and so on.
  void append_pieces(const std::string& word, std::vector<int64_t>* ids) const {
    std::vector<int64_t> pieces;
    for (size_t begin = 0; begin < word.size();) {
      size_t end = word.size();
      auto found = ids_.end();
      for (; end > begin; --end) {
        found = ids_.find((begin > 0 ? "##" : "") + word.substr(begin, end - begin));
        if (found != ids_.end()) break;
      }
      if (found == ids_.end()) {
        ids->push_back(id("[UNK]"));
        return;
      }
      pieces.push_back(found->second);
      begin = end;
    }
    ids->insert(ids->end(), pieces.begin(), pieces.end());
  }

  std::unordered_map<std::string, int64_t> ids_;
};

#endif  // EXAMPLES_02_MINILM_WORDPIECE_H_
