"""Files of rows as people have them: format, header, columns and cells, each decided once, as tables of Arrow."""
