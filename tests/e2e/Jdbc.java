// Jdbc.java - drives the Arrow Flight SQL JDBC driver against a running lake; prints what it saw, one item a line.
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;

public final class Jdbc {
    private static void print(String label, ResultSet rows) throws SQLException {
        ResultSetMetaData shape = rows.getMetaData();
        while (rows.next()) {
            StringBuilder line = new StringBuilder(label);
            for (int i = 1; i <= shape.getColumnCount(); i++) {
                line.append('|').append(rows.getObject(i));
            }
            System.out.println(line);
        }
        rows.close();
    }

    public static void main(String[] args) throws Exception {
        try (Connection connection = DriverManager.getConnection(args[0])) {
            try (Statement statement = connection.createStatement()) {
                print("select", statement.executeQuery("SELECT n, s FROM jdbc.numbers WHERE n < 3 ORDER BY n"));
                print("sum", statement.executeQuery("SELECT sum(n)::BIGINT AS total FROM jdbc.numbers"));
                try {
                    statement.executeQuery("SELECT nothing FROM jdbc.numbers");
                    System.out.println("no error");
                } catch (SQLException error) {
                    System.out.println("error|" + error.getMessage().contains("query planning failed"));
                }
            }
            try (PreparedStatement prepared = connection.prepareStatement("SELECT max(n) FROM jdbc.numbers")) {
                print("prepared", prepared.executeQuery());
                print("prepared", prepared.executeQuery());
            }
            DatabaseMetaData about = connection.getMetaData();
            System.out.println("product|" + about.getDatabaseProductName() + "|" + about.isReadOnly());
            print("catalog", about.getCatalogs());
            print("schema", about.getSchemas());
            ResultSet tables = about.getTables(null, "jdbc", "%", null);
            while (tables.next()) {
                System.out.println("table|" + tables.getString("TABLE_SCHEM") + "|" + tables.getString("TABLE_NAME") + "|"
                        + tables.getString("TABLE_TYPE"));
            }
            tables.close();
            ResultSet columns = about.getColumns(null, "jdbc", "numbers", "%");
            while (columns.next()) {
                System.out.println("column|" + columns.getString("COLUMN_NAME"));
            }
            columns.close();
            print("tabletype", about.getTableTypes());
            about.getTypeInfo().close();
            about.getPrimaryKeys(null, "jdbc", "numbers").close();
            about.getImportedKeys(null, "jdbc", "numbers").close();
            about.getExportedKeys(null, "jdbc", "numbers").close();
            System.out.println("keywords|" + !about.getSQLKeywords().isEmpty());
            System.out.println("functions|" + !about.getStringFunctions().isEmpty());
        }
    }
}
